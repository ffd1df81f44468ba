"""The life of a process as a locked file: whoever finds it free knows that the process is dead.

The kernel opens a `flock` when its holder ends, however that happens, and not before: one that is
paused keeps it. A name says which file is meant: the start of the kernel that keeps the locks, the
file's device and number, and a random word. Only where all of these are the same does a free lock
prove anything. A missing file proves nothing, nor does a copy, or a namesake in another container
or on another host.

A child that was forked would hold its parent's lock with it, so it closes its copy at once. That
does not open the lock, which is the parent's as long as the parent has it open.
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
    """Files in `folder` that begin with `prefix`; without a folder nothing is ever proven."""

    def __init__(self, folder: Path | None, *, prefix: str) -> None:
        self._folder = None if folder is None else folder.absolute()
        self._prefix = prefix
        self._name: str | None = None
        self._descriptor: int | None = None

    def close_after_fork(self) -> None:
        """In a child that was forked: the lock and its file are the parent's."""
        file, self._descriptor, self._name = self._descriptor, None, None
        if file is not None:
            os.close(file)

    def acquire(self) -> str | None:
        if self._name is None and self._folder is not None:
            try:
                self._name = self._create(self._folder)
            except OSError as error:
                log.info("life_lock_unavailable", extra={"reason": str(error)})
        return self._name

    def release(self) -> None:
        """In good order: nothing is left to be found."""
        if self._descriptor is None or self._name is None:
            return
        path = self._path_of(self._name)
        assert path is not None
        with suppress(OSError):  # It may be gone, and its folder too.
            path.unlink()
        os.close(self._descriptor)
        self._descriptor = self._name = None

    def is_free(self, name: str) -> bool:
        path = self._path_of(name)
        if path is None:
            return False
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if _name_of(os.fstat(file), path) != name:
                return False
            # Shared, so that two who look at the same time do not take each other for the holder.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(file)
        return True

    def remove(self, name: str) -> None:
        path = self._path_of(name)
        if path is not None and self.is_free(name):
            with suppress(OSError):  # Somebody else was faster, or it stays: it does no harm.
                path.unlink()

    def remove_stale(self, known: Collection[str]) -> None:
        for name in self._names():
            if name not in known:
                self.remove(name)

    def has_other_processes(self) -> bool:
        """Whether another process, as far as can be seen, works on the same database now."""
        return any(name != self._name and not self.is_free(name) for name in self._names())

    def _names(self) -> list[str]:
        """All that are here. What cannot be looked at is left out."""
        names: list[str] = []
        if self._folder is not None:
            for path in self._folder.glob(f"{glob.escape(self._prefix)}-{_NONCE_GLOB}{SUFFIX}"):
                with suppress(OSError):
                    names.append(_name_of(path.lstat(), path))
        return names

    def _create(self, folder: Path) -> str:
        path = folder / f"{self._prefix}-{secrets.token_hex(16)}{SUFFIX}"
        new = path.with_suffix(NEW_SUFFIX)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(new, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            name = _name_of(os.fstat(file), path)
            # Found by others only once it is locked: who cleans would take it for a leftover.
            new.rename(path)
        except BaseException:
            os.close(file)
            new.unlink(missing_ok=True)
            raise
        self._descriptor = file
        _held_locks().add(self)
        return name

    def _path_of(self, name: str) -> Path | None:
        """Where it must be; None when it is no name. It comes from the database: trust nothing."""
        parts = _NAME_PATTERN.fullmatch(name)
        if parts is None or self._folder is None:
            return None
        return self._folder / f"{self._prefix}-{parts[1]}{SUFFIX}"


def runtime_folder() -> Path | None:
    """A folder that is this user's alone, and the same for all of the user's processes here."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        folder = Path(runtime) / "headway"
    else:
        folder = Path(tempfile.gettempdir()) / f"headway-{os.geteuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        log.info("life_lock_unavailable", extra={"reason": str(error)})
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not is_ours or found.st_mode & 0o077:
        # Others can write below the temporary folder: what they put there is not for us.
        log.warning("life_lock_folder_not_private", extra={"path": str(folder)})
        return None
    return folder


@cache
def _held_locks() -> "WeakSet[FileLifeLock]":
    locks: WeakSet[FileLifeLock] = WeakSet()

    def forget_all() -> None:
        for lock in list(locks):
            with suppress(OSError):  # A job may have closed all files of its process.
                lock.close_after_fork()
        locks.clear()

    os.register_at_fork(after_in_child=forget_all)
    return locks


@cache
def _boot_id() -> str:
    return BOOT_ID_PATH.read_text(encoding="ascii").strip()


def _name_of(found: os.stat_result, path: Path) -> str:
    nonce = path.name.removesuffix(SUFFIX)[-32:]
    return f"{_boot_id()}:{found.st_dev:x}:{found.st_ino:x}:{nonce}"
