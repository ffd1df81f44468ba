"""Another process on the same database; it works until its standard input closes.

`python -m tests.engine.worker URL LEDGER`. Its jobs are its own `there`, and `shared`. For each
line of its input it starts a run of `shared` with that key, and prints the run's id.
"""

import asyncio
import os
import sys

from headway import Headway, RunContext
from headway.core.run.admission import OnConflict


def append(ledger: str, line: str) -> None:
    """Append one whole line. Other processes append to the same file."""
    with open(ledger, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def headway_with_jobs(url: str, ledger: str, *, own: str) -> Headway:
    """Return a Headway with the jobs `own` and `shared`, which record where they ran."""
    hw = Headway(url)

    async def work(ctx: RunContext) -> int:
        append(ledger, f"{own} {ctx.run_id}")
        await ctx.progress(pid=os.getpid())
        return os.getpid()

    async def shared(ctx: RunContext) -> int:
        return await work(ctx)

    work.__name__ = own
    hw.job()(work)
    hw.job()(shared)
    return hw


async def main(url: str, ledger: str) -> None:
    async with headway_with_jobs(url, ledger, own="there") as hw:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            run = await hw.start("shared", key=line, on_conflict=OnConflict.ENQUEUE)
            print(run.id, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
