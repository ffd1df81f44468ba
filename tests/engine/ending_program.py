"""A program for tests that send signals; its job ends once a file exists."""

import asyncio
import sys
import time
from pathlib import Path

from headway import BlockingRunContext, Headway

hw = Headway(sys.argv[1])
may_end = Path(sys.argv[2])


@hw.job()
def work(ctx: BlockingRunContext) -> str:
    print("working", flush=True)
    while not may_end.exists():
        time.sleep(0.02)
    return "done"


async def main() -> None:
    async with hw:
        await hw.start("work", key="ann")
        print("leaving after", await hw.wait_for_signal(), flush=True)
    print("left", flush=True)


asyncio.run(main())
