"""Runs work in lanes: the asyncio driver of `LaneTable`.

A task runs within its caller's own `await`, as soon as its lane allows it. So the task has its
caller's context variables, is canceled with its caller, and returns its result to the caller. The
lanes own no task that could be lost.
"""

import asyncio
import math
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import iscoroutine
from itertools import count
from typing import Final, TypeVar

from headway.lanes.entry import WARN_AFTER_S, Entry, LaneView, OnWait, Priority, TaskId
from headway.lanes.errors import InvalidWork, LaneCleared, LanesDraining
from headway.lanes.lane_table import LaneTable
from headway.lanes.limits import DEFAULT_LIMITS
from headway.lanes.names import global_lane, is_probe_lane, session_lane
from headway.lanes.start_signals import StartSignals
from headway.lanes.timeout_runner import TimeoutRunner
from headway.log import event_log

GRACE_S: Final = 5.0

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]

log = event_log(__name__)
_current_entry: ContextVar[Entry | None] = ContextVar("headway_lanes_entry", default=None)


class Lanes:
    """Named lanes in one process, on one event loop. Nothing in them survives the process.

    `clock` returns monotonic seconds. It measures waits and has no other effect.
    """

    def __init__(
        self,
        limits: Mapping[str, int] = DEFAULT_LIMITS,
        *,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the lanes. Raise InvalidLimits if a limit is invalid.

        A lane that `limits` does not name has its default limit, which is 1 for most lanes.
        """
        self._clock = clock
        self._table = LaneTable()
        self._timeout_runner = TimeoutRunner(grace_s=grace_s)
        self._start_signals = StartSignals(self._table, clock)
        self._end_watcher = _TaskEndWatcher()
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
        """Wait for a slot in `lane`, then do `work`. Return its result or raise its error.

        Raise InvalidWork if an argument is invalid. Raise LanesDraining at once if the lanes accept
        no new work. Raise LaneCleared if the lane is cleared during the wait. Raise TaskTimedOut if
        the work takes longer than `timeout_s`, counted from its start.

        Cancelling a waiting call removes it from the queue. When a call has waited for
        `warn_after_s`, the wait is logged and reported to `on_wait`, once. An error that `on_wait`
        raises goes to the loop's exception handler.
        """
        _check_work_arguments(work, lane, priority, warn_after_s, on_wait, timeout_s=timeout_s)
        entry = Entry(
            task_id=TaskId(next(self._task_ids)),
            lane=global_lane(lane),
            enqueued_s=self._clock(),
            name=name,
            priority=priority,
            warn_after_s=warn_after_s,
            on_wait=on_wait,
        )
        outer = _current_entry.get()
        is_inner = outer is not None and self._table.is_active(outer)
        # An inner call comes from active work, which was accepted. A refusal would break that work.
        if self._is_refusing and not is_inner:
            raise LanesDraining(entry.lane)
        try:
            if not self._table.enqueue(entry, entry.enqueued_s):
                await self._start_signals.wait(entry)
            return await self._run_work(entry, work, timeout_s)
        except BaseException as error:
            if not is_inner:  # Otherwise every nested call would log the same failure.
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
        """Do `work` when it is its turn in the session and a slot of the global `lane` is free.

        The calls of one session run one at a time, in the order of arrival. The limit of `lane`
        applies to all sessions together. Arguments and errors are the same as for `run`. `priority`
        has an effect in the global lane only.
        """
        _check_work_arguments(work, lane, priority, warn_after_s, on_wait, timeout_s=timeout_s)

        def run_in_global_lane() -> Awaitable[T]:
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
        return await self.run(
            session, run_in_global_lane, name=name, warn_after_s=warn_after_s, on_wait=on_wait
        )

    def clear(self, lane: str | None) -> int:
        """Fail all waiting tasks of the lane with LaneCleared, and return their number.

        Active tasks continue.
        """
        cleared = self._table.clear(global_lane(lane))
        for entry in cleared:
            self._start_signals.reject(entry)
        return len(cleared)

    def reset_all(self) -> None:
        """Reset the lanes after an in-process restart, when interrupted tasks may never end.

        No task counts as active any more, waiting tasks start, and new work is accepted again. A
        task that was active before the reset still returns its result to its caller when it ends,
        but frees no slot.
        """
        self._is_refusing = False
        self._end_watcher.note_ends(self._table.active_ids())
        self._start(self._table.reset(self._clock()))

    @contextmanager
    def reset_on_signal(self) -> Iterator[None]:
        """Call `reset_all` on each SIGUSR1 until the `with` block ends.

        The previous handler is then restored. Usable in the main thread only.
        """
        # Not `loop.add_signal_handler`: it does not restore the previous handler.
        loop = asyncio.get_running_loop()
        reset = lambda *_: loop.call_soon_threadsafe(self.reset_all)  # noqa: E731
        previous_handler = signal.signal(signal.SIGUSR1, reset)
        try:
            yield
        finally:
            signal.signal(signal.SIGUSR1, previous_handler or signal.SIG_DFL)

    def set_limit(self, lane: str | None, limit: int) -> None:
        """Run at most `limit` tasks of the lane at once from now on; 0 pauses the lane.

        Active tasks are not interrupted. Raise InvalidLimits if the limit is invalid.
        """
        self._start(self._table.set_limit(global_lane(lane), limit, self._clock()))

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Replace all limits. Lanes that `limits` does not name get their default limits.

        Raise InvalidLimits with a list of all problems, and change nothing, if a limit is invalid.
        """
        self._start(self._table.set_limits(limits, self._clock()))

    def refuse_new_work(self) -> None:
        """Refuse new work with LanesDraining before a shutdown. Accepted work continues."""
        self._is_refusing = True

    async def wait_for_active(self, timeout_s: float) -> bool:
        """Wait until all tasks that are active now, in any lane, have ended.

        Return False if some of them still run after `timeout_s`. Never raises.
        """
        return await self._end_watcher.wait(self._table.active_ids(), timeout_s)

    def view(self, lane: str | None) -> LaneView:
        return self._table.view(global_lane(lane))

    def views(self) -> list[LaneView]:
        """Return every lane that has its own limit, or waiting or active tasks."""
        return self._table.views()

    @property
    def left_behind_count(self) -> int:
        """The number of tasks that timed out, ignored their cancellation and still run."""
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


class _TaskEndWatcher:
    """Waits until certain tasks have ended. Tasks that start in the meantime do not matter."""

    def __init__(self) -> None:
        self._waiters: list[tuple[set[TaskId], asyncio.Future[None]]] = []

    async def wait(self, remaining: set[TaskId], timeout_s: float) -> bool:
        """Wait until all tasks in `remaining` have ended. Return False after `timeout_s`.

        Each task is removed from `remaining` when it ends. Never raises. A timeout of 0 returns at
        once.
        """
        if not remaining or timeout_s <= 0:
            return not remaining
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (remaining, ended)
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await ended
        except TimeoutError:
            pass  # The last task may have ended at the same moment: check the set.
        finally:
            self._waiters.remove(waiter)
        return not remaining

    def note_ends(self, ended_ids: Collection[TaskId]) -> None:
        for remaining, ended in self._waiters:
            remaining.difference_update(ended_ids)
            if not remaining and not ended.done():
                ended.set_result(None)


def _check_work_arguments(
    work: object,
    lane: object,
    priority: object,
    warn_after_s: object,
    on_wait: object,
    *,
    timeout_s: object,
) -> None:
    """Raise InvalidWork for the first invalid argument, before anything is queued."""
    if not callable(work):
        if iscoroutine(work):
            work.close()  # It will not be awaited; closing it avoids a RuntimeWarning.
        hint = "such as `lambda: ask(message)`, not an awaitable itself"
        raise InvalidWork(f"work must be a function that returns an awaitable, {hint}")
    if lane is not None and not isinstance(lane, str):
        raise InvalidWork("lane must be text, or None for the main lane")
    if not isinstance(priority, Priority):
        names = ", ".join(f"Priority.{member.name}" for member in Priority)
        raise InvalidWork(f"priority must be one of {names}, not {priority!r}")
    if on_wait is not None and not callable(on_wait):
        raise InvalidWork("on_wait must be a function, or None")
    _check_seconds("warn_after_s", warn_after_s)
    if timeout_s is not None:
        _check_seconds("timeout_s", timeout_s)


def _check_seconds(name: str, seconds: object) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or math.isnan(seconds) or seconds < 0:  # type: ignore[arg-type, operator]
        raise InvalidWork(f"{name} must be a number of seconds, 0 or more, not {seconds!r}")


def _log_failure(entry: Entry, error: BaseException) -> None:
    is_failure = isinstance(error, Exception) and not isinstance(error, LaneCleared)
    if is_failure and not is_probe_lane(entry.lane):
        extra = {"lane": entry.lane, "task_name": entry.name, "task_id": entry.task_id}
        log.error("lane_task_failed", exc_info=error, extra=extra)
