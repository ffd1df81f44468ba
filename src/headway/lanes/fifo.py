"""First come, first served; but anybody may leave, and learn how many stand before them."""

from bisect import bisect_left
from typing import Final

from headway.lanes.entry import Entry, TaskId

GAP_COUNT_MIN: Final = 64
"""Up to so many gaps are left open, even in a short queue."""


class Fifo:
    """Every question is answered without walking along the queue, save where many have left it."""

    def __init__(self) -> None:
        self._entries: dict[TaskId, Entry] = {}
        self._ids: list[TaskId] = []
        """Rising, since the entries are numbered as they come; with gaps where somebody left."""
        self._head_index = 0
        """Where in `_ids` the head is, or a gap before it."""

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
        """The queue must not be empty."""
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
