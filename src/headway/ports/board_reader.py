"""What people look at: a lane, the questions that wait for them, and the schedules."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.core.batch_state import Question
from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.schedule import SavedSchedule
from headway.ports.run_reader import LaneView


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a run asks and nobody has answered."""

    question: Question
    key: Key
    job: str
    lane: LaneName

    @property
    def place(self) -> tuple[Instant, RunId, str]:
        """In the order in which they are listed."""
        return self.question.asked_at, self.question.run_id, self.question.call_id


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of what is live, for those who draw them over time."""

    lanes: Sequence[LaneView]
    interrupt_count: int
    instance_count: int
    """Those with a lease that has not expired."""
    last_seq: int


class BoardReader(Protocol):
    async def lane(self, name: LaneName) -> LaneView | None: ...

    def interrupts(
        self,
        *,
        limit: int,
        run_id: RunId | None = None,
        after: tuple[Instant, RunId, str] | None = None,
    ) -> AsyncIterator[Interrupt]:
        """What waits for a person, the longest first; of one run, if that is wanted.

        Each is read when its turn is near. The next page begins `after` the last one's `place`.
        """
        ...

    async def schedules(self) -> Sequence[SavedSchedule]: ...

    async def figures(self) -> Figures: ...
