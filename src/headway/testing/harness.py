"""Opens a program's own Headway for a test, with a new database and a clock the test moves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headway.app import Headway
from headway.core.duration import SECONDS_MAX
from headway.testing.stepping import SteppingClock


@asynccontextmanager
async def open_for_test(
    hw: Headway, *, folder: Path, clock: SteppingClock
) -> AsyncIterator[Headway]:
    """Open `hw`, with its jobs and schedules, on a SQLite file in `folder`.

    Its settings are restored afterwards, so that another test can open it on another file.
    """
    original = hw._urls, hw._clock, hw._lease_ttl_s, hw._stop_wait_s
    hw._urls = (f"sqlite:///{folder / 'headway.db'}",)
    hw._clock = clock
    # The clock jumps: without these values the lease would expire, and the exit would wait.
    hw._lease_ttl_s, hw._stop_wait_s = SECONDS_MAX, 0.0
    try:
        async with hw:
            clock.attach_store(hw.store, hw._output.threads)
            try:
                yield hw
            finally:
                clock.attach_store(None)
    finally:
        hw._urls, hw._clock, hw._lease_ttl_s, hw._stop_wait_s = original
