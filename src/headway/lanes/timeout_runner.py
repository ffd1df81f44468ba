"""Runs work with a timeout that holds even if the work ignores its cancellation.

`asyncio.timeout` cancels its body and then waits for as long as the body takes. Here the work is a
separate task, so that the caller can continue without it. Such a task cannot belong to a TaskGroup,
which would wait for it too. `TimeoutRunner` owns the task until it ends.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headway.lanes.errors import TaskTimedOut
from headway.log import event_log

T = TypeVar("T")

log = event_log(__name__)


class TimeoutRunner:
    def __init__(self, *, grace_s: float) -> None:
        self._grace_s = grace_s
        """How long a canceled task may take to clean up before it is abandoned."""
        self._abandoned: set[asyncio.Task[object]] = set()

    @property
    def left_behind_count(self) -> int:
        """The number of abandoned tasks that still run."""
        return len(self._abandoned)

    async def run(self, work: Callable[[], Awaitable[T]], *, lane: str, timeout_s: float) -> T:
        """Return the result of the work, or raise its error.

        After `timeout_s` the work is canceled. If it then ends with a result or an error within the
        grace period, that is returned or raised, as with `asyncio.timeout`. Otherwise raise
        TaskTimedOut. If the caller is canceled, the work is canceled too.
        """
        task = asyncio.get_running_loop().create_task(_await_work(work))
        try:
            await asyncio.wait([task], timeout=timeout_s)
            if task.done():
                return task.result()
            await self._cancel(task)
        except asyncio.CancelledError:
            # Cancel only once: a second cancellation would interrupt the task's cleanup.
            if not task.done() and not task.cancelling():
                await self._cancel(task)
            raise
        finally:
            if not task.done():
                self._abandon(task, lane)
        if task.done() and not task.cancelled():
            return task.result()
        raise TaskTimedOut(lane, timeout_s, not task.done())

    async def _cancel(self, task: asyncio.Task[T]) -> None:
        task.cancel()
        await asyncio.wait([task], timeout=self._grace_s)

    def _abandon(self, task: asyncio.Task[T], lane: str) -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._on_late_end)
        log.warning("lane_task_abandoned", extra={"lane": lane, "grace_s": self._grace_s})

    def _on_late_end(self, task: asyncio.Task[T]) -> None:
        self._abandoned.discard(task)
        error = None if task.cancelled() else task.exception()
        log.info("lane_task_ended_late", exc_info=error)


async def _await_work(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
