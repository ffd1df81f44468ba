"""The data directory: the finished files of keys, and the unfinished parts of runs.

Callers check names with `core/stored_file.py` first. Calls are quick, except
calls whose docstring requires a thread.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headway.core.ids import Key, RunId


class Hold(Protocol):
    """A lock that is held until `close` or until this process exits."""

    def close(self) -> None: ...


class PartFile(Protocol):
    """A file that is being written, by one thread at a time."""

    name: str

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append `data`. Call in a thread, unless `data` is small."""
        ...

    def finish(self) -> int:
        """Sync the file to disk, close it, and return its size in bytes. Call in a thread."""
        ...

    def close(self) -> None:
        """Close the file without finishing it. The unfinished file stays in its folder."""
        ...


class FileFolder(Protocol):
    def data_id(self) -> str:
        """Return the id of this directory, which does not depend on where it is mounted.

        The first call creates the id.
        """
        ...

    # The folder with the unfinished files of a run. It exists from the first file until the run has
    # ended and its files are cleaned up.

    def run_ids(self) -> list[RunId]:
        """Return the ids of all runs that have a folder of unfinished files, sorted."""
        ...

    def has_run(self, run_id: RunId) -> bool: ...

    def hold_run_shared(self, run_id: RunId) -> Hold:
        """Lock the run's folder, together with other writers. Create the folder if needed."""
        ...

    def hold_run_exclusive(self, run_id: RunId) -> Hold | None:
        """Lock the run's folder exclusively. Return None if it is in use or does not exist."""
        ...

    def remove_run_folder(self, run_id: RunId) -> None:
        """Remove the run's folder of unfinished files, if it is empty."""
        ...

    def parts(self, run_id: RunId) -> list[str]: ...

    def create_part(self, run_id: RunId, part: str) -> PartFile:
        """Create a new file in the run's folder. The name `part` must be unused so far."""
        ...

    def drop_part(self, run_id: RunId, part: str) -> None: ...

    # The folder of a key, with its finished files.

    def hold_key(self, key: Key) -> Hold | None:
        """Lock the key's folder, which is required to remove its files.

        Return None if another process holds the lock.
        """
        ...

    def check_path(self, key: Key, path: str) -> None:
        """Raise InvalidInput if the path leads through a link or a file, or is itself a folder."""
        ...

    def has_file(self, key: Key, path: str) -> bool: ...

    def publish_part(self, run_id: RunId, part: str, key: Key, path: str) -> None:
        """Move `part` to `path` in the key's folder, atomically. Call in a thread.

        Do nothing if `part` no longer exists. Raise InvalidInput as `check_path` does.
        """
        ...

    def remove(self, key: Key, paths: Sequence[str]) -> None:
        """Remove the key's files at `paths`, and folders that become empty. Call in a thread.

        Paths without a file are skipped.
        """
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
        """Pack files of the key into the archive of `run_id`, atomically. Call in a thread.

        If `should_stop` returns True, the call returns early without an archive.
        """
        ...
