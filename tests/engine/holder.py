"""A process that claims runs and never ends them: `python -m tests.engine.holder URL`.

It prints `holding` for each run that it has started, and stops gracefully when its standard input
closes. Its lease lasts for hours, so a takeover of its runs did not wait for the lease to expire.
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
    """A running holder process."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.holder", url],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def wait_until_holding(self, count: int = 1) -> Self:
        """Wait until the process has started `count` more runs."""
        assert self.process.stdout is not None
        for _ in range(count):
            assert await asyncio.to_thread(self.process.stdout.readline) == "holding\n"
        return self

    def kill(self) -> None:
        """Kill the process and wait for its exit. Safe to call again."""
        with self.process:  # Closes the pipes and waits for the exit.
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
