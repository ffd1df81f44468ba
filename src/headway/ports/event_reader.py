"""The event stream, as it can be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.core.ids import Instant, RunId
from headway.core.run.events import Event


@dataclass(frozen=True, slots=True)
class EventSlice:
    events: Sequence[Event]
    last_seq: int
    """Of the whole stream."""
    pruned_seq: int
    """What was asked for begins before this: events are missing, take a snapshot instead."""
    has_more: bool
    """There may be more than were asked for."""
    after_seq_written_at: Instant | None = None
    """When the event `after_seq` was written, or None if there is no such event (any more).

    A different time means a different history: a backup was restored, and other events have been
    written under the same numbers since.
    """
    epoch: int = 0
    """Another one than before: after a failover, which may have lost the last events. Then numbers
    that were seen may stand for other events by now.
    """


class EventReader(Protocol):
    async def events(
        self,
        *,
        after_seq: int,
        limit: int,
        length_max: int | None = None,
        run_id: RunId | None = None,
    ) -> EventSlice:
        """What came after `after_seq`, in order; without gaps if nothing of it was pruned.

        Payloads together are no longer than `length_max`, unless the first alone is, and no more
        than that is ever in memory.
        """
        ...

    async def event_times(self, *, after_seq: int, limit: int) -> Sequence[tuple[int, Instant]]:
        """Return the number and the time of the next events, in order, without their payloads."""
        ...
