"""Who stands in line, and who is next.

Within a priority, first come, first served. Between priorities the more urgent goes first, but
whoever stands at the head of its priority and has been passed over `PASSES_PER_LEVEL` times counts
as one level more urgent, and so on up to the top; among equals the lower number goes first, which
is the one that came earlier. So nobody is passed over for ever, however many urgent ones keep
coming, and a long backlog of patient ones holds up an urgent one by one or two. This ageing counts
starts and not seconds: a lane that stood still has aged nobody.
"""

from typing import Final

from headway.lanes.entry import Entry, Priority
from headway.lanes.fifo import Fifo

PASSES_PER_LEVEL: Final = 8


class PriorityQueue:
    def __init__(self) -> None:
        self._queues: dict[Priority, Fifo] = {}
        """Only those in which somebody stands."""
        self._pass_counts: dict[Priority, int] = {}
        """How often the head of that priority has seen a more urgent one start."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, entry: Entry) -> None:
        self._queues.setdefault(entry.priority, Fifo()).add(entry)

    def discard(self, entry: Entry) -> None:
        """Take it out, wherever it stands; nothing happens if it does not stand here."""
        queue = self._queues.get(entry.priority)
        if queue is not None:
            queue.discard(entry)
            self._remove_if_empty(entry.priority)

    def pop(self) -> Entry:
        """The next one. The line must not be empty."""
        priority = min(self._queues, key=self._rank)
        entry = self._queues[priority].pop()
        for other in self._queues:
            if other > priority:
                self._pass_counts[other] = self._pass_counts.get(other, 0) + 1
        self._pass_counts.pop(priority, None)  # Who is the head now has not been passed over yet.
        self._remove_if_empty(priority)
        return entry

    def count_ahead_of(self, entry: Entry) -> int:
        """All who are more urgent, and those before it who are as urgent."""
        urgent = sum(len(queue) for p, queue in self._queues.items() if p < entry.priority)
        return urgent + self._queues[entry.priority].count_before(entry)

    def entries(self) -> list[Entry]:
        """In the order of arrival."""
        everybody = [entry for queue in self._queues.values() for entry in queue.entries()]
        return sorted(everybody, key=lambda entry: entry.task_id)

    def _rank(self, priority: Priority) -> tuple[int, int]:
        level = max(0, priority - self._pass_counts.get(priority, 0) // PASSES_PER_LEVEL)
        return level, self._queues[priority].head().task_id

    def _remove_if_empty(self, priority: Priority) -> None:
        if not self._queues[priority]:
            del self._queues[priority]
            self._pass_counts.pop(priority, None)
