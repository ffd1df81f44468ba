"""What time it is for flow tasks: what the database said last, and the time that passed since.

Who wakes a task goes by the database's clock. A driver that went by another one, a little behind,
would find nothing to do, park, and be woken again at once. How much time has passed is told by a
clock that nobody sets: so a jump of this machine's own clock moves no timer.
"""

from contextlib import AbstractAsyncContextManager
from typing import Final

from headway.core.ids import SECOND_US, Instant
from headway.ports.clock import Clock

ANSWER_DELAY_US_MAX: Final = SECOND_US
"""How much of a difference is put down to an answer that was long under way."""


class FlowClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_synced = False
        self._anchor(clock.now())

    def sync(self, now: Instant) -> None:
        """It is that late in the database, or later by now."""
        if not self._is_synced or not 0 <= self.now() - now <= ANSWER_DELAY_US_MAX:
            self._anchor(now)
            self._is_synced = True

    def _anchor(self, now: Instant) -> None:
        self._synced_now = now
        self._synced_at_s = self._clock.monotonic_s()

    def now(self) -> Instant:
        """It goes back when the database's clock was set back, and not for less than a second."""
        return Instant(
            self._synced_now + round((self._clock.monotonic_s() - self._synced_at_s) * SECOND_US)
        )

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """As `asyncio.timeout`."""
        return self._clock.timeout(seconds)
