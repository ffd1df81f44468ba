"""One instance of the steering torture: a Headway with Redis, whose jobs wait for messages."""

import asyncio
import json
import logging
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from headway import Headway, RunContext
from tests.torture.load import END

MESSAGE_COUNT: Final = 3
STEP_S: Final = 0.1
PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeredLoad:
    urls: list[str]
    redis_url: str
    folder: str
    """The folder of the file `end`, which the parent creates."""
    ttl_s: float

    @property
    def may_kill_itself(self) -> bool:
        return False

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.torture.steered", json.dumps(asdict(self))]


def headway_with_jobs(load: SteeredLoad) -> Headway:
    hw = Headway(*load.urls, redis_url=load.redis_url, lease_ttl_s=load.ttl_s, stop_wait_s=5.0)

    @hw.job()
    async def asking(ctx: RunContext) -> Any:
        return [await ctx.interrupt("May I?", timeout_s=PATIENCE_S)]

    @hw.job()
    async def hearing(ctx: RunContext) -> Any:
        heard: list[Any] = []
        async with ctx.listening():
            while len(heard) < MESSAGE_COUNT:
                heard += await ctx.messages()
                await asyncio.sleep(STEP_S)
        return heard + await ctx.messages()

    @hw.job()
    async def hanging(ctx: RunContext) -> None:
        await asyncio.sleep(PATIENCE_S)

    return hw


async def main(load: SteeredLoad) -> None:
    logging.getLogger("headway").setLevel(logging.ERROR)
    parent_pid = os.getppid()
    async with headway_with_jobs(load):
        while not (Path(load.folder) / END).exists() and os.getppid() == parent_pid:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main(SteeredLoad(**json.loads(sys.argv[1]))))
