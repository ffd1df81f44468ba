"""Wakes waiting tasks when they may start, and reports waits that take too long."""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Final, NamedTuple

from headway.lanes.entry import Entry, TaskId, WaitReport
from headway.lanes.errors import LaneCleared
from headway.lanes.lane_table import LaneTable
from headway.log import event_log

TIMER_S_MIN: Final = 0.001

log = event_log(__name__)


class _Waiter(NamedTuple):
    may_start: asyncio.Future[bool]
    """Resolved with True when the task may start, and with False when its lane was cleared."""
    timer: asyncio.TimerHandle
    context: Context


class StartSignals:
    def __init__(self, table: LaneTable, clock: Callable[[], float]) -> None:
        self._table = table
        self._clock = clock
        self._waiters: dict[TaskId, _Waiter] = {}

    async def wait(self, entry: Entry) -> None:
        """Wait until the task may start. Raise LaneCleared if its lane is cleared.

        A caller that is canceled must call `discard`.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(entry.warn_after_s, self._on_timer, entry)
        waiter = _Waiter(loop.create_future(), timer, copy_context())
        self._waiters[entry.task_id] = waiter
        if not await waiter.may_start:
            raise LaneCleared(entry.lane)

    def start(self, entry: Entry) -> None:
        """Wake the waiter of a task that may start. Do nothing if the task did not wait."""
        if entry.task_id in self._waiters:
            self._warn_if_due(entry)
            self._resolve(entry, may_start=True)

    def reject(self, entry: Entry) -> None:
        self._resolve(entry, may_start=False)

    def discard(self, entry: Entry) -> None:
        waiter = self._waiters.pop(entry.task_id, None)
        if waiter is not None:
            waiter.timer.cancel()

    def _resolve(self, entry: Entry, *, may_start: bool) -> None:
        waiter = self._waiters[entry.task_id]
        self.discard(entry)
        if not waiter.may_start.done():  # Done if the caller was canceled and is about to leave.
            waiter.may_start.set_result(may_start)

    def _on_timer(self, entry: Entry) -> None:
        self._warn_if_due(entry)
        if (
            not entry.has_warned
        ):  # `self._clock` differs from the loop's clock: the timer was early.
            left_s = max(entry.enqueued_s + entry.warn_after_s - self._clock(), TIMER_S_MIN)
            timer = asyncio.get_running_loop().call_later(left_s, self._on_timer, entry)
            waiter = self._waiters[entry.task_id]
            self._waiters[entry.task_id] = waiter._replace(timer=timer)

    def _warn_if_due(self, entry: Entry) -> None:
        wait = self._table.take_wait_warning(entry, self._clock())
        if wait is None:
            return
        # The event loop calls the log and the callback later. So a slow or failing callback or log
        # handler can neither delay nor prevent a start.
        context = self._waiters[entry.task_id].context
        loop = asyncio.get_running_loop()
        loop.call_soon(_log_wait, entry, wait, context=context)
        if entry.on_wait is not None:
            loop.call_soon(entry.on_wait, *wait, context=context)


def _log_wait(entry: Entry, wait: WaitReport) -> None:
    extra = {
        "lane": entry.lane,
        "task_name": entry.name,
        "waited_s": wait.waited_s,
        "ahead_count": wait.ahead_count,
    }
    log.warning("lane_wait_exceeded", extra=extra)
