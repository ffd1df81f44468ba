"""A process that claims runs and never ends them: `python -m tests.engine.holder URL`.

It says `holding` for each run that it has begun, and ends in good order with its standard input.
Its lease lasts for hours, so whoever takes its runs has not waited for that.
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from headway import Headway, RunContext
from tests.cli.command import environment

ROOT: Final = Path(__file__).parents[2]
LEASE_S: Final = 36_000.0


class Holder:
    """Such a process, and what it says."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.holder", url],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def holds(self, count: int = 1) -> Self:
        """Once it has begun `count` more runs."""
        assert self.process.stdout is not None
        for _ in range(count):
            assert await asyncio.to_thread(self.process.stdout.readline) == "holding\n"
        return self

    def kill(self) -> None:
        """Safe to call again."""
        with self.process:  # Closes the pipes, and waits for its end.
            self.process.kill()

    def stop(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


async def main(url: str) -> None:
    hw = Headway(url, lease_ttl_s=LEASE_S, stop_wait_s=0)

    @hw.job()
    async def hold(ctx: RunContext) -> None:
        print("holding", flush=True)
        await asyncio.Event().wait()

    async with hw:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
