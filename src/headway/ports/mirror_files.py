"""Where the mirror of runs is written. Nothing reads it back but people and their programs."""

from typing import Protocol

from headway.core.ids import Instant, RunId


class MirrorFiles(Protocol):
    """All of it belongs into a thread. OSError: it could not be written."""

    def write(self, run_id: RunId, text: str) -> None:
        """Replace the run's file, at once."""
        ...

    def read_position(self) -> tuple[int, Instant | None]:
        """Return the last mirrored event, and when it was written, if that is known.

        0 means that nothing is known to be mirrored.
        """
        ...

    def write_position(self, seq: int, at: Instant) -> None: ...
