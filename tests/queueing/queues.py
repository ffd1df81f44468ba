"""Two kinds of queue behind one interface: sessions around a lane with a limit.

In process, a session is a lane of its own around the global lane. In the durable queue it is the
run's key, and later runs wait behind it (`on_conflict="enqueue"`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Protocol

from headway import Headway, RunContext, RunFailed
from headway.lanes import LaneCleared, Lanes

LANE = "gate"
ASIDE = "aside"


class Cleared(Exception):
    """Raised for a message that was removed from the queue, with the reason."""


class Stage:
    """Work that records its start, and ends when it is released."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._released: set[str] = set()
        self._changed = asyncio.Condition()

    async def perform(self, name: str) -> str:
        async with self._changed:
            self.begun.append(name)
            self._changed.notify_all()
            await self._changed.wait_for(lambda: name in self._released)
            self.ended.append(name)
        if name.startswith("bad"):
            raise ValueError(name)
        return f"{name} done"

    async def release(self, *names: str) -> None:
        async with self._changed:
            self._released.update(names)
            self._changed.notify_all()

    async def wait_until_begun(self, *names: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: set(names) <= set(self.begun))


class Queue(Protocol):
    stage: Stage

    async def send(self, session: str, name: str) -> Awaitable[str]:
        """Queue work. The awaitable returns its result, or raises ValueError or Cleared."""
        ...

    async def set_limit(self, limit: int) -> None: ...

    async def clear(self) -> int: ...

    async def wait_for_active(self, timeout_s: float) -> bool: ...

    async def settle(self) -> None:
        """Return once all work that can start has started."""
        ...


class InProcess:
    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.stage = Stage()
        self._lanes = Lanes({LANE: 3})
        self._group = group

    async def send(self, session: str, name: str) -> Awaitable[str]:
        async def answer() -> str:
            work = self._lanes.run_in_session(
                session, lambda: self.stage.perform(name), lane=LANE, warn_after_s=600
            )
            try:
                return await work
            except LaneCleared as cleared:
                raise Cleared(str(cleared)) from cleared

        async def catch() -> str | Exception:  # A raised error would end the task group.
            try:
                return await answer()
            except (Cleared, ValueError) as error:
                return error

        task = self._group.create_task(catch())
        await self.settle()
        return _unwrap(task)

    async def set_limit(self, limit: int) -> None:
        self._lanes.set_limit(LANE, limit)

    async def clear(self) -> int:
        return self._lanes.clear(LANE)

    async def wait_for_active(self, timeout_s: float) -> bool:
        return await self._lanes.wait_for_active(timeout_s)

    async def settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)


async def _unwrap(task: "asyncio.Task[str | Exception]") -> str:
    answer = await task
    if isinstance(answer, Exception):
        raise answer
    return answer


class Durable:
    def __init__(self, url: str) -> None:
        self.stage = Stage()
        self.hw = Headway(url, stop_wait_s=0)
        self.hw.job(name="work", lane=LANE)(self._work)
        self.hw.job(name="aside", lane=ASIDE)(_do_nothing)

    async def _work(self, _: RunContext, name: str) -> str:
        return await self.stage.perform(name)

    async def send(self, session: str, name: str) -> Awaitable[str]:
        run = await self.hw.submit(
            "work", key=session, params={"name": name}, on_conflict="enqueue"
        )

        async def answer() -> str:
            try:
                return str(await run.result())
            except RunFailed as failed:
                message = str(failed.error["message"])
                error_type = Cleared if failed.error["code"] == "canceled" else ValueError
                raise error_type(message.removeprefix("ValueError: ")) from failed

        return answer()

    async def set_limit(self, limit: int) -> None:
        await self.hw.lanes.set(LANE, max_concurrent=limit)

    async def clear(self) -> int:
        return await self.hw.lanes.clear(LANE)

    async def wait_for_active(self, timeout_s: float) -> bool:
        return await self.hw.lanes.wait_for_active(timeout_s)

    async def settle(self) -> None:
        # One claim round covers all lanes. When a later run in another lane has ended, this lane
        # was polled too. Twice, because the first round may have been in flight already.
        for _ in range(2):
            await (await self.hw.start("aside")).result()


async def _do_nothing(_: RunContext) -> None:
    return None


@asynccontextmanager
async def in_process() -> AsyncIterator[Queue]:
    async with asyncio.TaskGroup() as group:
        queue = InProcess(group)
        yield queue
        await queue.stage.release(*queue.stage.begun)


@asynccontextmanager
async def durable(url: str) -> AsyncIterator[Queue]:
    queue = Durable(url)
    async with queue.hw:
        await queue.set_limit(3)
        yield queue
