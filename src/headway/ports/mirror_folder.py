"""Where the mirror of runs is written. Nothing reads it back but people and their programs."""

from typing import Protocol

from headway.core.ids import RunId


class MirrorFiles(Protocol):
    """All of it belongs into a thread. OSError: it could not be written."""

    def write(self, run_id: RunId, text: str) -> None:
        """Replace the run's file, at once."""
        ...

    def read_seq(self) -> int:
        """Up to where of the stream all is mirrored; 0: nothing is known to be."""
        ...

    def write_seq(self, seq: int) -> None: ...
