"""Observes jobs from inside: how many have begun, when, and whether their order was correct.

Nothing but the standard library: this is used in the environments of other systems too.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable


class Referee:
    """Called by jobs, from any thread."""

    def __init__(self, *, concurrent_count: int = 0) -> None:
        self.on_begin: Callable[[], object] = lambda: None
        self.begun_at_s: dict[int, float] = {}
        self.violation_count = 0
        self.ended_count = 0
        self._concurrent_count = concurrent_count
        self._running_count = 0
        self._running: defaultdict[int, int] = defaultdict(int)
        self._latest: defaultdict[int, int] = defaultdict(lambda: -1)
        self._lock = threading.Lock()

    def begin(self, number: int) -> None:
        self.begun_at_s[number] = time.perf_counter()
        self.on_begin()

    def enter(self, key: int, number: int) -> None:
        """Record that the job `number`, counted in the order of submission, begins for `key`."""
        with self._lock:
            self._running[key] += 1
            self._running_count += 1
            is_beside_another = self._running[key] > 1
            is_out_of_order = number <= self._latest[key]
            is_above_limit = self._running_count > self._concurrent_count
            self.violation_count += is_beside_another or is_out_of_order or is_above_limit
            self._latest[key] = number

    def leave(self, key: int) -> None:
        with self._lock:
            self._running[key] -= 1
            self._running_count -= 1
            self.ended_count += 1
