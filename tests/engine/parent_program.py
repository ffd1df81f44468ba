"""A process with a parent run and its children, to be killed while the parent waits.

`python -m tests.engine.parent_program URL LEDGER` starts a run of `parent` and prints its id. It
also prints `stuck` once the second child blocks.
"""

import asyncio
import sys

from headway import Headway, RunContext
from tests.engine.worker import append

LEASE_TTL_S = 1.0


def make_headway(url: str, ledger: str, *, is_stuck: bool) -> Headway:
    """Return a Headway whose parent job calls two children; `is_stuck` blocks the second."""
    hw = Headway(url, lease_ttl_s=LEASE_TTL_S)

    @hw.job()
    async def quick(ctx: RunContext) -> str:
        append(ledger, f"quick {ctx.run_id}")
        return "quick"

    @hw.job()
    async def slow(ctx: RunContext) -> str:
        append(ledger, f"slow {ctx.run_id}")
        if is_stuck:
            print("stuck", flush=True)
            await asyncio.Event().wait()
        return "slow"

    @hw.job()
    async def parent(ctx: RunContext) -> list[str]:
        return [await ctx.call("quick"), await ctx.call("slow", key="slow")]

    return hw


async def main(url: str, ledger: str) -> None:
    async with make_headway(url, ledger, is_stuck=True) as hw:
        run = await hw.start("parent", key="ann")
        print(run.id, flush=True)
        await run.wait_for_end()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
