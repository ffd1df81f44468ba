"""The data directory.

```
data-id                     the id of this directory, wherever it is mounted
keys/<key>/photos/1.jpg     finished files
parts/<run>/2-1-1.jpg.part  unfinished files; this is the first file of the run's second claim
archives/<key>/….zip        output of earlier runs, packed before the job of a new run starts
runs/<run>.json             the mirror
```

Every name below `keys/<key>` is opened relative to its parent's descriptor and never through a
link. So nothing that a job, or another program with write access, puts into the folder can lead to
a file outside it.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from uuid import uuid4

from headway.adapters.files.archive import write_archive
from headway.adapters.files.part import OpenPart
from headway.core.errors import InvalidInput
from headway.core.ids import Key, RunId
from headway.core.stored_file import folder_name

ID_FILE: Final = "data-id"
PUBLISH_ATTEMPT_COUNT_MAX: Final = 10
_OPEN_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderHold:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DataFolder:
    """A `FileFolder` on the local file system. It is created when it is first written to."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._data_id: str | None = None

    def data_id(self) -> str:
        if self._data_id is None:
            self._data_id = self._read_or_create_id()
        return self._data_id

    def _read_or_create_id(self) -> str:
        make_private_folder(self.root)
        file = self.root / ID_FILE
        hold = _lock_folder(self.root, fcntl.LOCK_EX)
        assert hold is not None
        try:
            if not file.exists():
                temporary = self.root / f"{ID_FILE}.{uuid4().hex}"
                write_private_file(temporary, f"{uuid4()}\n".encode())
                temporary.rename(file)
        finally:
            hold.close()
        return file.read_text(encoding="utf-8").strip()

    # Unfinished files.

    def run_ids(self) -> list[RunId]:
        try:
            names = os.listdir(self.root / "parts")
        except FileNotFoundError:
            return []
        return sorted(RunId(unquote(name)) for name in names)

    def has_run(self, run_id: RunId) -> bool:
        return self._run_folder(run_id).exists()

    def hold_run_shared(self, run_id: RunId) -> FolderHold:
        folder = self._run_folder(run_id)
        while True:  # Another process may remove the folder between its creation and the lock.
            make_private_folder(folder)
            hold = _lock_folder(folder, fcntl.LOCK_SH)
            if hold is not None:
                return hold

    def hold_run_exclusive(self, run_id: RunId) -> FolderHold | None:
        return _lock_folder(self._run_folder(run_id), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove_run_folder(self, run_id: RunId) -> None:
        with suppress(FileNotFoundError):
            self._run_folder(run_id).rmdir()

    def parts(self, run_id: RunId) -> list[str]:
        try:
            return os.listdir(self._run_folder(run_id))
        except FileNotFoundError:
            return []

    def create_part(self, run_id: RunId, part: str) -> OpenPart:
        descriptor = os.open(self._run_folder(run_id) / part, _NEW_FILE_FLAGS, 0o600)
        return OpenPart(part, descriptor)

    def drop_part(self, run_id: RunId, part: str) -> None:
        (self._run_folder(run_id) / part).unlink(missing_ok=True)

    def _run_folder(self, run_id: RunId) -> Path:
        return self.root / "parts" / folder_name(run_id)

    # Finished files.

    def hold_key(self, key: Key) -> FolderHold | None:
        make_private_folder(self._key_folder(key))
        return _lock_folder(self._key_folder(key), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def check_path(self, key: Key, path: str) -> None:
        with suppress(FileNotFoundError), self._open_parent(key, path) as (parent, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                raise InvalidInput("file", f"{path!r} is a folder")

    def has_file(self, key: Key, path: str) -> bool:
        try:
            with self._open_parent(key, path) as (parent, name):
                return stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def publish_part(self, run_id: RunId, part: str, key: Key, path: str) -> None:
        source = self._run_folder(run_id) / part
        for _ in range(PUBLISH_ATTEMPT_COUNT_MAX):
            if not source.exists():  # A later execution or the sweep has published it.
                return
            # Another process may remove the empty folder at the same time: then create it again.
            with (
                suppress(FileNotFoundError),
                self._open_parent(key, path, make=True) as (parent, name),
            ):
                try:
                    os.rename(source, name, dst_dir_fd=parent)
                except IsADirectoryError:
                    raise InvalidInput("file", f"{path!r} is a folder") from None
                os.fsync(parent)
                return

    def remove(self, key: Key, paths: Sequence[str]) -> None:
        # A file whose path is now a folder, or leads through a link, counts as removed.
        removed_errors = (FileNotFoundError, IsADirectoryError, InvalidInput)
        for path in paths:
            with suppress(*removed_errors), self._open_parent(key, path) as (parent, name):
                os.unlink(name, dir_fd=parent)
        for folder in _parent_folders(paths):  # Deepest first. A folder that is not empty stays.
            with suppress(OSError, InvalidInput), self._open_parent(key, folder) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        with suppress(OSError):
            self._key_folder(key).rmdir()

    def _key_folder(self, key: Key) -> Path:
        return self.root / "keys" / folder_name(key)

    @contextmanager
    def _open_parent(self, key: Key, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of the folder that contains `path`, and the file's name in it."""
        *folders, name = path.split("/")
        if make:
            make_private_folder(self._key_folder(key))
        descriptor = os.open(self._key_folder(key), _OPEN_FOLDER_FLAGS)
        try:
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, 0o700, dir_fd=descriptor)
                inner = _open_subfolder(descriptor, folder, path)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, name
        finally:
            os.close(descriptor)

    # Archives.

    def has_archive(self, key: Key, run_id: RunId) -> bool:
        ending = f"-{folder_name(run_id)}.zip"
        try:
            names = os.listdir(self._archive_folder(key))
        except FileNotFoundError:
            return False
        return any(name.endswith(ending) for name in names)

    def pack(
        self,
        key: Key,
        paths: Sequence[str],
        *,
        run_id: RunId,
        part: str,
        should_stop: Callable[[], bool],
    ) -> None:
        source = self._run_folder(run_id) / part
        descriptor = os.open(source, _NEW_FILE_FLAGS, 0o600)
        stamp = write_archive(descriptor, self._open_files(key, paths), should_stop)
        if stamp is None:
            return
        make_private_folder(self._archive_folder(key))
        source.rename(self._archive_folder(key) / f"{stamp}-{folder_name(run_id)}.zip")
        sync_folder(self._archive_folder(key))

    def _open_files(self, key: Key, paths: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield each path with an open descriptor, which the caller must close."""
        for path in paths:
            source = self._open_file(key, path)
            if source is not None:
                yield path, source

    def _open_file(self, key: Key, path: str) -> int | None:
        """Open a file for reading. Return None if it is gone or not a regular file."""
        try:
            with self._open_parent(key, path) as (parent, name):
                if stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except (FileNotFoundError, InvalidInput):
            pass
        return None

    def _archive_folder(self, key: Key) -> Path:
        return self.root / "archives" / folder_name(key)


def make_private_folder(folder: Path) -> None:
    """Create a folder and its parents with mode 0700. Existing folders do not change."""
    if folder.is_dir():
        return
    if not folder.parent.exists():
        make_private_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)


def write_private_file(file: Path, content: bytes) -> None:
    """Create a file with mode 0600 and sync it to disk."""
    with os.fdopen(os.open(file, _NEW_FILE_FLAGS, 0o600), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock_folder(folder: Path, mode: int) -> FolderHold | None:
    """Lock a folder. Return None if another process holds the lock, or the folder is gone."""
    try:
        descriptor = os.open(folder, _OPEN_FOLDER_FLAGS)
    except FileNotFoundError:
        return None
    hold = FolderHold(descriptor)
    try:
        fcntl.flock(descriptor, mode)
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            return hold
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        hold.close()
        raise
    hold.close()
    return None


def _open_subfolder(parent: int, folder: str, path: str) -> int:
    try:
        return os.open(folder, _OPEN_FOLDER_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError:  # The error for a link differs between systems.
        problem = f"{path!r} leads through {folder!r}, which is a link or not a folder"
        raise InvalidInput("file", problem) from None


def _parent_folders(paths: Sequence[str]) -> list[str]:
    """Return all parent folders of these files. Each folder comes before its own parent."""
    folders = {
        "/".join(names[:depth])
        for names in (path.split("/") for path in paths)
        for depth in range(1, len(names))
    }
    return sorted(folders, key=lambda folder: folder.count("/"), reverse=True)
