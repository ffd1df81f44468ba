"""The files that mirror runs for people and their programs. headway never reads them back."""

from typing import Protocol

from headway.core.ids import Instant, RunId


class MirrorFiles(Protocol):
    """The files that mirror runs. Call every method in a thread. Failed writes raise OSError."""

    def write(self, run_id: RunId, text: str) -> None:
        """Replace the run's file atomically."""
        ...

    def read_position(self) -> tuple[int, Instant | None]:
        """Return the number of the last mirrored event, and its time if it was recorded.

        The number is 0 if no position was recorded.
        """
        ...

    def write_position(self, seq: int, at: Instant) -> None: ...
