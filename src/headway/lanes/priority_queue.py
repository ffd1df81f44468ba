"""The queue of a lane, which decides which waiting task starts next.

Within a priority the order is first come, first served. Between priorities the more urgent one goes
first, with ageing: when the head of a priority was passed over `PASSES_PER_LEVEL` times, it counts
as one level more urgent, then another level, up to the most urgent. Among equal levels the lower
task id, which arrived earlier, goes first. So no task is passed over forever, however many urgent
tasks arrive, and a long backlog of less urgent tasks delays an urgent one by one or two starts.
Ageing counts starts and not seconds, so it stops while the lane starts no task.
"""

from bisect import bisect_left
from typing import Final

from headway.lanes.entry import Entry, Priority, TaskId

PASSES_PER_LEVEL: Final = 8
GAP_COUNT_MIN: Final = 64
"""The number of gaps that even a short queue may have before it compacts its ids."""


class Fifo:
    """A first-in, first-out queue from which any entry can be removed.

    It can also count the entries before a given one. No operation walks along the queue, except to
    compact it after many removals.
    """

    def __init__(self) -> None:
        self._entries: dict[TaskId, Entry] = {}
        self._ids: list[TaskId] = []
        """Task ids in the order of arrival, so they rise. Ids of removed entries stay as gaps."""
        self._head_index = 0
        """The index of the head in `_ids`, or the index of a gap before the head."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        assert not self._ids or entry.task_id > self._ids[-1]
        self._entries[entry.task_id] = entry
        self._ids.append(entry.task_id)

    def discard(self, entry: Entry) -> None:
        if self._entries.pop(entry.task_id, None) is None:
            return
        if len(self._ids) > 2 * len(self._entries) + GAP_COUNT_MIN:
            self._close_gaps()

    def head(self) -> Entry:
        """Return the first entry. The queue must not be empty."""
        while self._ids[self._head_index] not in self._entries:
            self._head_index += 1
        return self._entries[self._ids[self._head_index]]

    def pop(self) -> Entry:
        entry = self.head()
        self.discard(entry)
        return entry

    def count_before(self, entry: Entry) -> int:
        self.head()
        if len(self._ids) - self._head_index > len(self._entries):
            self._close_gaps()
        return bisect_left(self._ids, entry.task_id) - self._head_index

    def entries(self) -> list[Entry]:
        return list(self._entries.values())

    def _close_gaps(self) -> None:
        self._ids = list(self._entries)
        self._head_index = 0


class PriorityQueue:
    def __init__(self) -> None:
        self._queues: dict[Priority, Fifo] = {}
        """The queue of each priority that has waiting entries."""
        self._pass_counts: dict[Priority, int] = {}
        """Maps a priority to how often more urgent entries passed over its current head."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, entry: Entry) -> None:
        self._queues.setdefault(entry.priority, Fifo()).add(entry)

    def discard(self, entry: Entry) -> None:
        """Remove an entry from any position. Do nothing if it is not in the queue."""
        queue = self._queues.get(entry.priority)
        if queue is not None:
            queue.discard(entry)
            self._remove_if_empty(entry.priority)

    def pop(self) -> Entry:
        """Remove and return the next entry. The queue must not be empty."""
        priority = min(self._queues, key=self._rank)
        entry = self._queues[priority].pop()
        for other in self._queues:
            if other > priority:
                self._pass_counts[other] = self._pass_counts.get(other, 0) + 1
        self._pass_counts.pop(priority, None)  # The new head has not been passed over yet.
        self._remove_if_empty(priority)
        return entry

    def count_ahead_of(self, entry: Entry) -> int:
        """Count the entries that are more urgent, or earlier with the same priority."""
        urgent_count = sum(len(queue) for p, queue in self._queues.items() if p < entry.priority)
        return urgent_count + self._queues[entry.priority].count_before(entry)

    def entries(self) -> list[Entry]:
        """Return all entries in the order of arrival."""
        entries = [entry for queue in self._queues.values() for entry in queue.entries()]
        return sorted(entries, key=lambda entry: entry.task_id)

    def _rank(self, priority: Priority) -> tuple[int, int]:
        level = max(0, priority - self._pass_counts.get(priority, 0) // PASSES_PER_LEVEL)
        return level, self._queues[priority].head().task_id

    def _remove_if_empty(self, priority: Priority) -> None:
        if not self._queues[priority]:
            del self._queues[priority]
            self._pass_counts.pop(priority, None)
