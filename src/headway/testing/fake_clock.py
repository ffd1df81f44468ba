"""Time moves when the test moves it."""

from typing import Final

from headway.core.ids import Instant, add_seconds

NOON: Final = Instant(1_750_000_000_000_000)
"""Some moment; a test must not care which."""


class FakeClock:
    """For a store of headway's own tests. It stands still until `advance` is called.

    Several stores may share one, from any thread.
    """

    def __init__(self, now: Instant = NOON) -> None:
        self._now = now

    def __call__(self) -> Instant:
        return self._now

    def advance(self, seconds: float) -> Instant:
        """Move on, and say what time it is then. Less than zero is a clock that jumps back."""
        self._now = add_seconds(self._now, seconds=seconds)
        return self._now
