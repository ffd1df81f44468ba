"""Open a program's own Headway for a test: on a new database, by a clock that the test moves."""

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
    """`async with hw`, with its jobs and schedules, on a SQLite file in `folder`.

    Afterwards it is as before: another test may open it again, on another file.
    """
    before = hw._urls, hw._clock, hw._lease_ttl_s, hw._stop_wait_s
    hw._urls = (f"sqlite:///{folder / 'headway.db'}",)
    hw._clock = clock
    # Time comes in jumps: nobody is to take this process for dead, nor to wait for its end.
    hw._lease_ttl_s, hw._stop_wait_s = SECONDS_MAX, 0.0
    try:
        async with hw:
            clock.attach_store(hw.store, hw._output.threads)
            try:
                yield hw
            finally:
                clock.attach_store(None)
    finally:
        hw._urls, hw._clock, hw._lease_ttl_s, hw._stop_wait_s = before
