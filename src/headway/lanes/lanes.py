"""The lanes at work: the asyncio driver of the `Board`.

A task runs within its caller's own `await`, as soon as its lane lets it. So its context variables,
its cancellation and its result are its caller's, and the lanes own no task that could be lost.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Final, TypeVar

from headway.lanes.end_watcher import TaskEndWatcher
from headway.lanes.entry import WARN_AFTER_S, Entry, LaneView, OnWait, Priority, TaskId
from headway.lanes.errors import LaneCleared, LanesDraining
from headway.lanes.lane_table import LaneTable
from headway.lanes.limits import DEFAULT_LIMITS
from headway.lanes.names import global_lane, is_probe_lane, session_lane
from headway.lanes.start_signals import StartSignals
from headway.lanes.timeout_runner import TimeoutRunner
from headway.lanes.wanted import check_work_arguments
from headway.log import event_log

GRACE_S: Final = 5.0

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]

log = event_log(__name__)
_current_entry: ContextVar[Entry | None] = ContextVar("headway_lanes_around", default=None)


class Lanes:
    """Named lanes in one process, on one event loop; nothing here survives the process.

    `clock` counts seconds and never goes back; it measures waits, and decides nothing else.
    """

    def __init__(
        self,
        limits: Mapping[str, int] = DEFAULT_LIMITS,
        *,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises InvalidLimits. A lane without a limit has its default; most have 1."""
        self._clock = clock
        self._table = LaneTable()
        self._timeout_runner = TimeoutRunner(grace_s=grace_s)
        self._start_signals = StartSignals(self._table, clock)
        self._end_watcher = TaskEndWatcher()
        self._task_ids = count(1)
        self._is_refusing = False
        self.set_limits(limits)

    async def run(
        self,
        lane: str | None,
        work: Work[T],
        *,
        name: str = "",
        priority: Priority = Priority.NORMAL,
        warn_after_s: float = WARN_AFTER_S,
        on_wait: OnWait | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """Wait for a turn in `lane`, then do `work`; its result, or whatever it raises.

        Raises LanesDraining at once, LaneCleared while it waits, TaskTimedOut while it works. To
        cancel one that waits is to leave the queue. A wait of `warn_after_s` is logged, and told to
        `on_wait`, once; what that raises goes to the loop's exception handler. `timeout_s` counts
        from the start of the work. InvalidWork: something of it cannot be.
        """
        check_work_arguments(work, lane, priority, warn_after_s, on_wait, timeout_s=timeout_s)
        entry = Entry(
            task_id=TaskId(next(self._task_ids)),
            lane=global_lane(lane),
            enqueued_s=self._clock(),
            name=name,
            priority=priority,
            warn_after_s=warn_after_s,
            on_wait=on_wait,
        )
        around = _current_entry.get()
        is_inner = around is not None and self._table.is_active(around)
        # Work within work was accepted with it: to refuse it now would break what is under way.
        if self._is_refusing and not is_inner:
            raise LanesDraining(entry.lane)
        try:
            if not self._table.enqueue(entry, entry.enqueued_s):
                await self._start_signals.wait(entry)
            return await self._run_work(entry, work, timeout_s)
        except BaseException as error:
            if not is_inner:  # Or the same failure would be told once by every layer.
                _log_failure(entry, error)
            raise
        finally:
            self._release(entry)

    async def run_in_session(
        self,
        key: str | None,
        work: Work[T],
        *,
        session_id: str | None = None,
        lane: str | None = None,
        name: str = "",
        priority: Priority = Priority.NORMAL,
        warn_after_s: float = WARN_AFTER_S,
        on_wait: OnWait | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """One at a time within the session and, within that, a few at a time in the global `lane`.

        As `run`. A session keeps its order whatever the priority, which counts in the global lane.
        """
        check_work_arguments(work, lane, priority, warn_after_s, on_wait, timeout_s=timeout_s)

        def gated() -> Awaitable[T]:
            return self.run(
                lane,
                work,
                name=name,
                priority=priority,
                warn_after_s=warn_after_s,
                on_wait=on_wait,
                timeout_s=timeout_s,
            )

        session = session_lane(key, session_id)
        return await self.run(session, gated, name=name, warn_after_s=warn_after_s, on_wait=on_wait)

    def clear(self, lane: str | None) -> int:
        """Fail all that wait in the lane with LaneCleared; how many. What is active goes on."""
        cleared = self._table.clear(global_lane(lane))
        for entry in cleared:
            self._start_signals.reject(entry)
        return len(cleared)

    def reset_all(self) -> None:
        """Begin anew after an in-process restart, where interrupted tasks may never say their end.

        No task counts as active any more, those that wait start, and new work is accepted again. A
        task from before that ends after all still answers its caller, and frees no place.
        """
        self._is_refusing = False
        self._end_watcher.note_ends(self._table.active_ids())
        self._start(self._table.reset(self._clock()))

    @contextmanager
    def reset_on_signal(self) -> Iterator[None]:
        """Inside, SIGUSR1 to this process is a `reset_all`. In the main thread only.

        Afterwards it is what it was before, which the loop's own way to hear signals forgets.
        """
        loop = asyncio.get_running_loop()
        reset = lambda *_: loop.call_soon_threadsafe(self.reset_all)  # noqa: E731
        before = signal.signal(signal.SIGUSR1, reset)
        try:
            yield
        finally:
            signal.signal(signal.SIGUSR1, before or signal.SIG_DFL)

    def set_limit(self, lane: str | None, limit: int) -> None:
        """From now on at most `limit` at once; 0 pauses the lane. It interrupts nobody.

        Raises InvalidLimits.
        """
        self._start(self._table.set_limit(global_lane(lane), limit, self._clock()))

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Apply a whole configuration: what it does not name has its default again.

        Raises InvalidLimits with all that is wrong, and then nothing has changed.
        """
        self._start(self._table.set_limits(limits, self._clock()))

    def refuse_new_work(self) -> None:
        """Before a shutdown: what was accepted goes on, new work gets LanesDraining."""
        self._is_refusing = True

    async def wait_for_active(self, timeout_s: float) -> bool:
        """Whether all that is active now, in any lane, has ended in time. It never raises."""
        return await self._end_watcher.wait(self._table.active_ids(), timeout_s)

    def view(self, lane: str | None) -> LaneView:
        return self._table.view(global_lane(lane))

    def views(self) -> list[LaneView]:
        """Every lane that has a limit of its own, or work."""
        return self._table.views()

    @property
    def left_behind_count(self) -> int:
        """How many tasks have timed out and still run, because they do not heed the cancel."""
        return self._timeout_runner.left_behind_count

    async def _run_work(self, entry: Entry, work: Work[T], timeout_s: float | None) -> T:
        token = _current_entry.set(entry)
        try:
            if timeout_s is None:
                return await work()
            return await self._timeout_runner.run(work, lane=entry.lane, timeout_s=timeout_s)
        finally:
            _current_entry.reset(token)

    def _release(self, entry: Entry) -> None:
        self._start_signals.discard(entry)
        self._end_watcher.note_ends((entry.task_id,))
        self._start(self._table.remove(entry, self._clock()))

    def _start(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._start_signals.start(entry)


def _log_failure(entry: Entry, error: BaseException) -> None:
    is_news = isinstance(error, Exception) and not isinstance(error, LaneCleared)
    if is_news and not is_probe_lane(entry.lane):
        extra = {"lane": entry.lane, "task_name": entry.name, "task_id": entry.task_id}
        log.error("lane_task_failed", exc_info=error, extra=extra)
