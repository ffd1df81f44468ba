"""The smallest program: one job, one run, its result.

    $ python examples/hello.py
    hello, ann (attempt 1)

The run is kept in hello.db: kill the program in the middle, start it again, and it goes on.
"""

import asyncio

from headway import Headway, RunContext

hw = Headway("sqlite:///hello.db")


@hw.job()
async def greet(ctx: RunContext, name: str) -> str:
    await asyncio.sleep(0.5)  # the long work
    return f"hello, {name} (attempt {ctx.attempt})"


async def main() -> None:
    async with hw:
        # One at a time per key. If a run of `ann` is under way already, this is that run.
        run = await hw.start("greet", key="ann", params={"name": "ann"}, on_conflict="join")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
