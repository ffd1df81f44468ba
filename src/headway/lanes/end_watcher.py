"""Waiting until certain tasks are active no more, whatever else has started since."""

import asyncio
from collections.abc import Collection

from headway.lanes.entry import TaskId


class TaskEndWatcher:
    """Told of every end, it wakes whoever waited for the last of theirs."""

    def __init__(self) -> None:
        self._waiters: list[tuple[set[TaskId], asyncio.Future[None]]] = []

    async def wait(self, left: set[TaskId], timeout_s: float) -> bool:
        """Whether all of them have ended in time, each taken from the set as it ends.

        It never raises; 0 seconds answer at once.
        """
        if not left or timeout_s <= 0:
            return not left
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait = (left, ended)
        self._waiters.append(wait)
        try:
            async with asyncio.timeout(timeout_s):
                await ended
        except TimeoutError:
            pass  # The last may have ended in the same instant: look once more.
        finally:
            self._waiters.remove(wait)
        return not left

    def note_ends(self, ended_ids: Collection[TaskId]) -> None:
        for left, ended in self._waiters:
            left.difference_update(ended_ids)
            if not left and not ended.done():
                ended.set_result(None)
