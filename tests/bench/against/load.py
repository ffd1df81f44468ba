"""One workload on one database: prints its rate in runs per second.

It uses only the public library, so that it also runs with earlier commits.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from headway import Headway, RunContext

CONCURRENCY = 64
WARM_UP_COUNT = 200

hw = Headway(sys.argv[2])


@hw.job(concurrency=CONCURRENCY)
async def empty(ctx: RunContext, number: int = 0) -> int:
    return number


@hw.job(concurrency=CONCURRENCY)
async def reports(ctx: RunContext) -> None:
    await ctx.progress(done=1)
    await ctx.log("one line")
    await ctx.save_checkpoint({"page": 1})


@hw.job(concurrency=CONCURRENCY)
async def parent(ctx: RunContext) -> Any:
    return await ctx.call(empty, params={"number": 1})


async def start_and_wait(job: Callable[..., Any], **options: Any) -> Any:
    return await (await hw.start(job, **options)).result()


async def drain() -> int:
    count = 4_000
    for first in range(0, count, 1_000):
        numbers = range(first, first + 1_000)
        await asyncio.gather(
            *(start_and_wait(empty, key=f"key-{n}", params={"number": n}) for n in numbers)
        )
    return count


async def single() -> int:
    count = 400
    for number in range(count):
        await start_and_wait(empty, params={"number": number})
    return count


async def report() -> int:
    count = 1_000
    await asyncio.gather(*(start_and_wait(reports) for _ in range(count)))
    return count


async def children() -> int:
    count = 600
    await asyncio.gather(*(start_and_wait(parent) for _ in range(count)))
    return count


async def submit() -> int:
    """Submit runs to a lane that executes none of them."""
    count = 3_000
    await hw.lanes.set("closed", max_concurrent=0)
    await asyncio.gather(*(hw.start(empty, key=f"key-{n}", lane="closed") for n in range(count)))
    return count


WORKLOADS: dict[str, Callable[[], Awaitable[int]]] = {
    "drain": drain,
    "single": single,
    "reports": report,
    "children": children,
    "submit": submit,
}


async def main() -> None:
    async with hw:
        await asyncio.gather(*(start_and_wait(empty) for _ in range(WARM_UP_COUNT)))
        began_s = time.perf_counter()
        count = await WORKLOADS[sys.argv[1]]()
        print(count / (time.perf_counter() - began_s))


def create_schema(url: str) -> None:
    command = [sys.executable, "-m", "headway", "db", "upgrade"]
    environment = os.environ | {"HEADWAY_DATABASE_URL": url}
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)


create_schema(sys.argv[2])
asyncio.run(main())
