"""Work with a time limit that holds even when the work does not.

`asyncio.timeout` asks its body to stop, and waits for as long as the body takes. Here the work is a
task of its own, so that whoever waits for it can go on without it. Such a task cannot belong to a
TaskGroup, which would wait for it too; it belongs to `Deadlines`, until it ends after all.
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
        """How long a cancelled task may take to clean up, before it is left behind."""
        self._left_behind: set[asyncio.Task[object]] = set()

    @property
    def left_behind_count(self) -> int:
        """How many tasks were left behind and still run."""
        return len(self._left_behind)

    async def run(self, work: Callable[[], Awaitable[T]], *, lane: str, timeout_s: float) -> T:
        """The work's result or error, or TaskTimedOut at `timeout_s` plus the grace at the latest.

        As with `asyncio.timeout`, work that answers the cancel with a result or an error of its own
        has had the last word. A cancel of the caller is passed on to the work.
        """
        task = asyncio.get_running_loop().create_task(_await_work(work))
        try:
            await asyncio.wait([task], timeout=timeout_s)
            if task.done():
                return task.result()
            await self._cancel(task)
        except asyncio.CancelledError:
            # Once only: a second cancel would disturb it while it cleans up.
            if not task.done() and not task.cancelling():
                await self._cancel(task)
            raise
        finally:
            if not task.done():
                self._leave_behind(task, lane)
        if task.done() and not task.cancelled():
            return task.result()
        raise TaskTimedOut(lane, timeout_s, not task.done())

    async def _cancel(self, task: asyncio.Task[T]) -> None:
        task.cancel()
        await asyncio.wait([task], timeout=self._grace_s)

    def _leave_behind(self, task: asyncio.Task[T], lane: str) -> None:
        self._left_behind.add(task)
        task.add_done_callback(self._on_late_end)
        log.warning("lane_task_left_behind", extra={"lane": lane, "grace_s": self._grace_s})

    def _on_late_end(self, task: asyncio.Task[T]) -> None:
        self._left_behind.discard(task)
        error = None if task.cancelled() else task.exception()
        log.info("lane_task_ended_late", exc_info=error)


async def _await_work(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
