"""The smallest program: one job, one run, and its result.

    $ python examples/hello.py
    hello, ann (attempt 1)

The run is stored in hello.db. Kill the program in the middle and start it again: it resumes the
same run instead of starting a second one.
"""

import asyncio

from headway import Headway, RunContext

hw = Headway("sqlite:///hello.db")


@hw.job()
async def greet(ctx: RunContext, name: str) -> str:
    await asyncio.sleep(0.5)  # Stands for long work.
    return f"hello, {name} (attempt {ctx.attempt})"


async def main() -> None:
    async with hw:
        # A key has at most one active run. If "ann" already has one, `join` returns that run.
        run = await hw.start("greet", key="ann", params={"name": "ann"}, on_conflict="join")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
