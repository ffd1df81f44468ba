"""A clock for tests of stores, which moves only when the test moves it."""

from typing import Final

from headway.core.ids import Instant, add_seconds

NOON: Final = Instant(1_750_000_000_000_000)
"""An arbitrary instant. A test must not depend on its value."""


class FakeClock:
    """A clock for a store in headway's own tests. It stands still until `advance` is called.

    Several stores may share one clock, from any thread.
    """

    def __init__(self, now: Instant = NOON) -> None:
        self._now = now

    def __call__(self) -> Instant:
        return self._now

    def advance(self, seconds: float) -> Instant:
        """Move the clock and return the new time. A negative value moves it back."""
        self._now = add_seconds(self._now, seconds=seconds)
        return self._now
