"""A process with a parent and its children, to be killed in the middle.

`python -m tests.engine.family URL LEDGER` starts a run of `parent` and prints its id; a second
line comes when its children are as far as they get there.
"""

import asyncio
import sys

from headway import Headway, RunContext
from tests.engine.worker import append

LEASE_TTL_S = 1.0


def family(url: str, ledger: str, *, stuck: bool) -> Headway:
    """A parent with two children: one is quick, the other stays for ever where it is stuck."""
    hw = Headway(url, lease_ttl_s=LEASE_TTL_S)

    @hw.job()
    async def quick(ctx: RunContext) -> str:
        append(ledger, f"quick {ctx.run_id}")
        return "quick"

    @hw.job()
    async def slow(ctx: RunContext) -> str:
        append(ledger, f"slow {ctx.run_id}")
        if stuck:
            print("stuck", flush=True)
            await asyncio.Event().wait()
        return "slow"

    @hw.job()
    async def parent(ctx: RunContext) -> list[str]:
        return [await ctx.call("quick"), await ctx.call("slow", key="slow")]

    return hw


async def main(url: str, ledger: str) -> None:
    async with family(url, ledger, stuck=True) as hw:
        run = await hw.start("parent", key="ann")
        print(run.id, flush=True)
        await run.wait_for_end()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
