"""The clock of flow tasks: the database's time, advanced by this process's monotonic clock.

Tasks are woken by the database's clock. If a driver's clock were slightly behind, the driver would
find nothing to do, park the task, and be woken again at once. Elapsed time comes from a monotonic
clock, so a jump of this machine's wall clock moves no timer.
"""

from contextlib import AbstractAsyncContextManager
from typing import Final

from headway.core.ids import SECOND_US, Instant
from headway.ports.clock import Clock

ANSWER_DELAY_US_MAX: Final = SECOND_US
"""If this clock is ahead by at most this time, the cause may be a slow database answer."""


class FlowClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_synced = False
        self._anchor(clock.now())

    def sync(self, now: Instant) -> None:
        """Set this clock to the database's time, unless it is at most ANSWER_DELAY_US_MAX ahead."""
        if not self._is_synced or not 0 <= self.now() - now <= ANSWER_DELAY_US_MAX:
            self._anchor(now)
            self._is_synced = True

    def _anchor(self, now: Instant) -> None:
        self._synced_now = now
        self._synced_at_s = self._clock.monotonic_s()

    def now(self) -> Instant:
        """Return the current time of the database, as estimated by this process.

        The time goes back only if the database's clock was set back by more than a second.
        """
        return Instant(
            self._synced_now + round((self._clock.monotonic_s() - self._synced_at_s) * SECOND_US)
        )

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Return a timeout context manager, like `asyncio.timeout`."""
        return self._clock.timeout(seconds)
