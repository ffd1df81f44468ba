"""The data directory: where runs keep their files, and what of them is not whole yet.

Names are checked by `core/stored_file.py` before. Calls here are quick, except
where it says that it belongs into a thread.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headway.core.ids import Key, RunId


class Hold(Protocol):
    """A lock. It ends with `close`, or with this process."""

    def close(self) -> None: ...


class PartFile(Protocol):
    """A file that is being written. For one thread at a time."""

    name: str

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Into a thread, unless `data` is small."""
        ...

    def finish(self) -> int:
        """See that it is on the disk, and close it; how many bytes it has. Into a thread."""
        ...

    def close(self) -> None:
        """Give it up; it stays where it is."""
        ...


class FileFolder(Protocol):
    def data_id(self) -> str:
        """The name of this directory, wherever it is mounted; made when first asked for."""
        ...

    # The folder of what a run has not finished. It is there from the first file on until the run
    # is over and all is done that is to be done about its files.

    def run_ids(self) -> list[RunId]:
        """Those that have a folder, sorted."""
        ...

    def has_run(self, run_id: RunId) -> bool: ...

    def hold_run_shared(self, run_id: RunId) -> Hold:
        """Make the folder, and say that a runner is in there. Several may be."""
        ...

    def hold_run_exclusive(self, run_id: RunId) -> Hold | None:
        """Be alone with it; None: a runner is still in there, or it is gone."""
        ...

    def remove_run_folder(self, run_id: RunId) -> None:
        """Remove the folder, if it is empty."""
        ...

    def parts(self, run_id: RunId) -> list[str]: ...

    def create_part(self, run_id: RunId, part: str) -> PartFile:
        """A new file there; `part` must not have been used before."""
        ...

    def drop_part(self, run_id: RunId, part: str) -> None: ...

    # The folder of a key.

    def hold_key(self, key: Key) -> Hold | None:
        """Whoever removes files of the key must be alone; None: another is at it."""
        ...

    def check_path(self, key: Key, path: str) -> None:
        """InvalidInput: the path leads through a link or a file, or is a folder itself."""
        ...

    def has_file(self, key: Key, path: str) -> bool: ...

    def publish_part(self, run_id: RunId, part: str, key: Key, path: str) -> None:
        """Give `part` its final name, at once; nothing happens if it is gone. Into a thread.

        InvalidInput as for `check_place`.
        """
        ...

    def remove(self, key: Key, paths: Sequence[str]) -> None:
        """Remove files, as far as they are there, and folders left empty. Into a thread."""
        ...

    # Archives.

    def has_archive(self, key: Key, run_id: RunId) -> bool: ...

    def pack(
        self,
        key: Key,
        paths: Sequence[str],
        *,
        run_id: RunId,
        part: str,
        should_stop: Callable[[], bool],
    ) -> None:
        """Make the archive of `run_id` from files of the key, whole or not at all. Into a thread.

        When `should_stop` it ends early, without one.
        """
        ...
