"""Reads of the event stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.core.ids import Instant, RunId
from headway.core.run.events import Event


@dataclass(frozen=True, slots=True)
class EventSlice:
    events: Sequence[Event]
    last_seq: int
    """The number of the last event of the whole stream."""
    pruned_seq: int
    """Events up to this number were pruned.

    If the caller's `after_seq` is lower, events are missing and the caller must take a snapshot.
    """
    has_more: bool
    """True if more events may follow."""
    after_seq_written_at: Instant | None = None
    """When the event `after_seq` was written, or None if that event does not exist.

    If the time differs from an earlier read, a backup was restored and other events were written
    under the same numbers since.
    """
    epoch: int = 0
    """The epoch of the stream, which rises after a failover.

    A failover may lose the last events, so numbers seen in another epoch may belong to other
    events now.
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
        """Return the next events after `after_seq`, in order.

        With `run_id`, return only events of that run. No event between them is missing, except
        pruned events. The total length of the payloads is at most `length_max`. The first event is
        returned even if its payload alone is longer. Payloads of events that are not returned are
        not loaded.
        """
        ...

    async def event_times(self, *, after_seq: int, limit: int) -> Sequence[tuple[int, Instant]]:
        """Return the numbers and times of the events after `after_seq`, without payloads."""
        ...
