"""Reads for the board and for monitoring: lanes, open interrupts, schedules and metrics."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.core.batch_state import Interrupt
from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.schedule import SavedSchedule
from headway.ports.run_reader import LaneCounts


@dataclass(frozen=True, slots=True)
class ListedInterrupt:
    """An open interrupt: a run's question that has no answer yet."""

    interrupt: Interrupt
    key: Key
    job: str
    lane: LaneName

    @property
    def cursor(self) -> tuple[Instant, RunId, str]:
        """The position of this interrupt in the list, from which the next page begins."""
        return self.interrupt.asked_at, self.interrupt.run_id, self.interrupt.call_id


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Counts of everything that is active, for monitoring systems."""

    lanes: Sequence[LaneCounts]
    interrupt_count: int
    instance_count: int
    """The number of instances whose lease has not expired."""
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
        """Yield all open interrupts, oldest first, or only those of the run `run_id`.

        Rows are read lazily, in small batches. For the next page, pass the `cursor` of the last
        interrupt as `after`.
        """
        ...

    async def schedules(self) -> Sequence[SavedSchedule]: ...

    async def metrics(self) -> MetricsSnapshot: ...
