"""Two kinds of queue behind one set of words: sessions outside, a lane with a limit inside.

In process the session is a lane of its own around the global one; in the durable queue it is the
run's key, and whoever comes later waits behind it (`on_conflict="enqueue"`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Protocol

from headway import Headway, RunContext, RunFailed
from headway.lanes import LaneCleared, Lanes

LANE = "gate"
ASIDE = "aside"


class Sent(Exception):
    """A message that will not be answered, and why."""


class Stage:
    """Work that notes when it begins, and ends when it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._let_go: set[str] = set()
        self._changed = asyncio.Condition()

    async def perform(self, name: str) -> str:
        async with self._changed:
            self.begun.append(name)
            self._changed.notify_all()
            await self._changed.wait_for(lambda: name in self._let_go)
            self.ended.append(name)
        if name.startswith("bad"):
            raise ValueError(name)
        return f"{name} done"

    async def let_go(self, *names: str) -> None:
        async with self._changed:
            self._let_go.update(names)
            self._changed.notify_all()

    async def has_begun(self, *names: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: set(names) <= set(self.begun))


class Queue(Protocol):
    stage: Stage

    async def send(self, session: str, name: str) -> Awaitable[str]:
        """Put work into the queue. The answer is its result, or ValueError, or Sent (cleared)."""
        ...

    async def set_limit(self, limit: int) -> None: ...

    async def clear(self) -> int: ...

    async def wait_for_active(self, timeout_s: float) -> bool: ...

    async def rest(self) -> None:
        """Return when everything that could start by now has started."""
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
                raise Sent(str(cleared)) from cleared

        async def kept() -> str | Exception:  # Or the first failure would end the group.
            try:
                return await answer()
            except (Sent, ValueError) as error:
                return error

        task = self._group.create_task(kept())
        await self.rest()
        return _opened(task)

    async def set_limit(self, limit: int) -> None:
        self._lanes.set_limit(LANE, limit)

    async def clear(self) -> int:
        return self._lanes.clear(LANE)

    async def wait_for_active(self, timeout_s: float) -> bool:
        return await self._lanes.wait_for_active(timeout_s)

    async def rest(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)


async def _opened(task: "asyncio.Task[str | Exception]") -> str:
    answer = await task
    if isinstance(answer, Exception):
        raise answer
    return answer


class Durable:
    def __init__(self, url: str) -> None:
        self.stage = Stage()
        self.hw = Headway(url, stop_wait_s=0)
        self.hw.job(name="work", lane=LANE)(self._work)
        self.hw.job(name="aside", lane=ASIDE)(_nothing)

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
                words = str(failed.error["message"])
                kind = Sent if failed.error["code"] == "canceled" else ValueError
                raise kind(words.removeprefix("ValueError: ")) from failed

        return answer()

    async def set_limit(self, limit: int) -> None:
        await self.hw.lanes.set(LANE, max_concurrent=limit)

    async def clear(self) -> int:
        return await self.hw.lanes.clear(LANE)

    async def wait_for_active(self, timeout_s: float) -> bool:
        return await self.hw.lanes.wait_for_active(timeout_s)

    async def rest(self) -> None:
        # All lanes are claimed from in one round. When one that came later was served, the others
        # were asked too; twice, for that round may have been under way already.
        for _ in range(2):
            await (await self.hw.start("aside")).result()


async def _nothing(_: RunContext) -> None:
    return None


@asynccontextmanager
async def in_process() -> AsyncIterator[Queue]:
    async with asyncio.TaskGroup() as group:
        queue = InProcess(group)
        yield queue
        await queue.stage.let_go(*queue.stage.begun)


@asynccontextmanager
async def durable(url: str) -> AsyncIterator[Queue]:
    queue = Durable(url)
    async with queue.hw:
        await queue.set_limit(3)
        yield queue
