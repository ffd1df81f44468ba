"""Opens a program's own Headway for a test, with a new database and a clock the test moves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from headway.app import Headway
from headway.core.duration import SECONDS_MAX
from headway.testing.stepping import SteppingClock


@asynccontextmanager
async def open_for_test(
    hw: Headway, *, folder: Path, clock: SteppingClock
) -> AsyncIterator[Headway]:
    """Open `hw`, with its jobs and schedules, on a SQLite file in `folder`.

    The settings of `hw` are restored afterwards, so that another test can open it on another file.
    """
    original = hw._config
    hw._config = replace(
        original,
        urls=(f"sqlite:///{folder / 'headway.db'}",),
        clock=clock,
        # The clock jumps: without these values the lease would expire, and the exit would wait.
        lease_ttl_s=SECONDS_MAX,
        stop_wait_s=0.0,
    )
    try:
        async with hw:
            clock.attach_store(hw.store, hw._opened.output.threads)
            try:
                yield hw
            finally:
                clock.attach_store(None)
    finally:
        hw._config = original
