"""What people look at: a lane, the questions that wait for them, and the schedules."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.core.batch_state import Interrupt
from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.schedule import SavedSchedule
from headway.ports.run_reader import LaneCounts


@dataclass(frozen=True, slots=True)
class ListedInterrupt:
    """A question that a run asks and nobody has answered."""

    interrupt: Interrupt
    key: Key
    job: str
    lane: LaneName

    @property
    def cursor(self) -> tuple[Instant, RunId, str]:
        """In the order in which they are listed."""
        return self.interrupt.asked_at, self.interrupt.run_id, self.interrupt.call_id


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Counts of what is live, for those who draw them over time."""

    lanes: Sequence[LaneCounts]
    interrupt_count: int
    instance_count: int
    """Those with a lease that has not expired."""
    last_seq: int


class BoardReader(Protocol):
    async def lane(self, name: LaneName) -> LaneCounts | None: ...

    def interrupts(
        self,
        *,
        limit: int,
        run_id: RunId | None = None,
        after: tuple[Instant, RunId, str] | None = None,
    ) -> AsyncIterator[ListedInterrupt]:
        """What waits for a person, the longest first; of one run, if that is wanted.

        Each is read when its turn is near. The next page begins `after` the last one's `place`.
        """
        ...

    async def schedules(self) -> Sequence[SavedSchedule]: ...

    async def metrics(self) -> MetricsSnapshot: ...
