"""One lane as a state machine: events go in, the entries that may start come out.

A `Lane` has no clock, no event loop and no callbacks.
"""

from collections.abc import Iterator

from headway.lanes.entry import ActiveTask, Entry, LaneView, TaskId, WaitReport
from headway.lanes.priority_queue import PriorityQueue


class Lane:
    def __init__(self, name: str, *, max_concurrent: int, generation: int) -> None:
        self.name = name
        self.max_concurrent = max_concurrent
        self.generation = generation
        self._queue = PriorityQueue()
        self._active: dict[TaskId, Entry] = {}
        self._is_draining = False

    @property
    def is_idle(self) -> bool:
        return not self._active and not self._queue

    @property
    def active_ids(self) -> list[TaskId]:
        return list(self._active)

    def is_active(self, entry: Entry) -> bool:
        return self._active.get(entry.task_id) is entry

    def enqueue(self, entry: Entry, now_s: float) -> bool:
        """Add an entry. Return True if it is active at once, or False if it has to wait."""
        # During a drain an entry that was yielded may not have started yet, so queue behind it.
        if self._is_draining or len(self._active) >= self.max_concurrent:
            self._queue.add(entry)
            return False
        assert not self._queue  # Every change that makes room is followed by a drain.
        self._activate(entry, now_s)
        return True

    def drain(self, now_s: float) -> Iterator[Entry]:
        """Yield the entries that may start. Each is active from the moment it is yielded.

        A drain that begins during another drain yields nothing: the outer drain yields all entries,
        in order.
        """
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._queue and len(self._active) < self.max_concurrent:
                entry = self._queue.pop()
                self._activate(entry, now_s)
                yield entry
        finally:
            self._is_draining = False

    def withdraw(self, entry: Entry) -> None:
        """Remove a waiting entry. The order of the others does not change."""
        self._queue.discard(entry)

    def finish(self, task_id: TaskId, generation: int | None) -> None:
        """Free the slot of a task that ended. A task started before a reset frees no slot."""
        if generation == self.generation:
            del self._active[task_id]

    def clear(self) -> list[Entry]:
        """Remove and return all waiting entries. Active entries stay."""
        cleared = self._queue.entries()
        self._queue = PriorityQueue()
        return cleared

    def reset(self, generation: int) -> None:
        """Remove all active entries, because they may never report their end. Keep waiting ones."""
        self.generation = generation
        self._active.clear()

    def wait_report(self, entry: Entry, now_s: float) -> WaitReport:
        """Describe the wait of an entry that waits or has just started."""
        is_waiting = entry.generation is None
        return WaitReport(
            waited_s=now_s - entry.enqueued_s,
            ahead_count=self._queue.count_ahead_of(entry) if is_waiting else 0,
            active=tuple(
                ActiveTask(other.task_id, other.name, now_s - other.started_s)
                for other in self._active.values()
                if other is not entry
            ),
        )

    def _activate(self, entry: Entry, now_s: float) -> None:
        entry.generation = self.generation
        entry.started_s = now_s
        self._active[entry.task_id] = entry

    def view(self) -> LaneView:
        return LaneView(
            name=self.name,
            max_concurrent=self.max_concurrent,
            generation=self.generation,
            waiting=tuple(entry.task_id for entry in self._queue.entries()),
            active=tuple(self._active),
        )
