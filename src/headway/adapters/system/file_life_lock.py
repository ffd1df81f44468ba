"""A file that a process locks while it runs: a free lock proves that the process has ended.

The kernel releases a `flock` when its holder ends, for any reason, and not earlier: a paused
process keeps its lock. The name of a lock identifies its file: the boot id of the kernel that holds
the locks, the device and inode of the file, and a random nonce. A free lock proves something only
if all of these match. A missing file proves nothing, and neither does a copy, or a file of the same
name in another container or on another host.

A forked child inherits its parent's lock, so the child closes its copy of the file at once. That
does not release the lock while the parent has the file open.
"""

import fcntl
import glob
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final
from weakref import WeakSet

from headway.log import event_log

BOOT_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")
SUFFIX: Final = ".alive"
NEW_SUFFIX: Final = ".new"
_NAME_PATTERN: Final = re.compile(r"[0-9a-f-]{36}:[0-9a-f]{1,16}:[0-9a-f]{1,16}:([0-9a-f]{32})")
_NONCE_GLOB: Final = "[0-9a-f]" * 32

log = event_log(__name__)


class FileLifeLock:
    """A `LifeLock` that uses files in `folder` whose names begin with `prefix`.

    Without a folder, no process is ever proven to have ended.
    """

    def __init__(self, folder: Path | None, *, prefix: str) -> None:
        self._folder = None if folder is None else folder.absolute()
        self._prefix = prefix
        self._name: str | None = None
        self._descriptor: int | None = None

    def close_after_fork(self) -> None:
        """Close the lock file in a forked child, because lock and file belong to the parent."""
        descriptor, self._descriptor, self._name = self._descriptor, None, None
        if descriptor is not None:
            os.close(descriptor)

    def acquire(self) -> str | None:
        if self._name is None and self._folder is not None:
            try:
                self._name = self._create(self._folder)
            except OSError as error:
                log.info("life_lock_unavailable", extra={"reason": str(error)})
        return self._name

    def release(self) -> None:
        """Release the lock and remove its file, before a normal exit."""
        if self._descriptor is None or self._name is None:
            return
        path = self._path_of(self._name)
        assert path is not None
        with suppress(OSError):  # The file or its folder may have been removed.
            path.unlink()
        os.close(self._descriptor)
        self._descriptor = self._name = None

    def is_free(self, name: str) -> bool:
        path = self._path_of(name)
        if path is None:
            return False
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if _name_of(os.fstat(descriptor), path) != name:
                return False
            # Shared, so that two processes that check at the same time do not block each other.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def remove(self, name: str) -> None:
        path = self._path_of(name)
        if path is not None and self.is_free(name):
            with suppress(OSError):  # Another process removed it, or it stays, which is harmless.
                path.unlink()

    def remove_stale(self, known: Collection[str]) -> None:
        for name in self._names():
            if name not in known:
                self.remove(name)

    def has_other_processes(self) -> bool:
        """Return True if another process holds a lock here, so it uses the same database now."""
        return any(name != self._name and not self.is_free(name) for name in self._names())

    def _names(self) -> list[str]:
        """Return the names of all locks in the folder. Unreadable files are left out."""
        names: list[str] = []
        if self._folder is not None:
            for path in self._folder.glob(f"{glob.escape(self._prefix)}-{_NONCE_GLOB}{SUFFIX}"):
                with suppress(OSError):
                    names.append(_name_of(path.lstat(), path))
        return names

    def _create(self, folder: Path) -> str:
        path = folder / f"{self._prefix}-{secrets.token_hex(16)}{SUFFIX}"
        new_path = path.with_suffix(NEW_SUFFIX)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(new_path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            name = _name_of(os.fstat(descriptor), path)
            # Lock before the rename: another process would remove an unlocked file as stale.
            new_path.rename(path)
        except BaseException:
            os.close(descriptor)
            new_path.unlink(missing_ok=True)
            raise
        self._descriptor = descriptor
        _held_locks().add(self)
        return name

    def _path_of(self, name: str) -> Path | None:
        """Return the path of the lock with this name, or None if the name is invalid.

        The name comes from the database, so its format is checked.
        """
        match = _NAME_PATTERN.fullmatch(name)
        if match is None or self._folder is None:
            return None
        return self._folder / f"{self._prefix}-{match[1]}{SUFFIX}"


def runtime_folder() -> Path | None:
    """Return a private folder that all processes of this user on this host share.

    Return None if it cannot be created, or if other users can access it.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        folder = Path(runtime) / "headway"
    else:
        folder = Path(tempfile.gettempdir()) / f"headway-{os.geteuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError as error:
        log.info("life_lock_unavailable", extra={"reason": str(error)})
        return None
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not is_own or status.st_mode & 0o077:
        # Other users can create files in the temporary folder, so do not trust this one.
        log.warning("life_lock_folder_not_private", extra={"path": str(folder)})
        return None
    return folder


@cache
def _held_locks() -> "WeakSet[FileLifeLock]":
    locks: WeakSet[FileLifeLock] = WeakSet()

    def close_all() -> None:
        for lock in list(locks):
            with suppress(OSError):  # A job may have closed all files of its process.
                lock.close_after_fork()
        locks.clear()

    os.register_at_fork(after_in_child=close_all)
    return locks


@cache
def _boot_id() -> str:
    return BOOT_ID_PATH.read_text(encoding="ascii").strip()


def _name_of(status: os.stat_result, path: Path) -> str:
    nonce = path.name.removesuffix(SUFFIX)[-32:]
    return f"{_boot_id()}:{status.st_dev:x}:{status.st_ino:x}:{nonce}"
