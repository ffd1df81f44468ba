"""What time it is for flow tasks: this machine's clock, put right by what the database says.

Who wakes a task goes by the database's clock. A driver that went by another one, a little behind,
would find nothing to do, park, and be woken again at once.
"""

from contextlib import AbstractAsyncContextManager

from headway.core.ids import Instant
from headway.ports.clock import Clock


class FlowClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_us = 0
        """How much later it is in the database."""
        self._last = Instant(0)

    def heard(self, now: Instant) -> None:
        """It is that late in the database, or later by now."""
        self._ahead_us = now - self._clock.now()
        self._last = max(self._last, now)

    def now(self) -> Instant:
        """It never goes back."""
        self._last = max(self._last, Instant(self._clock.now() + self._ahead_us))
        return self._last

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """As `asyncio.timeout`."""
        return self._clock.timeout(seconds)
