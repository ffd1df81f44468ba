"""Where a throw-away server keeps its files: under /tmp, because socket paths must stay short.

A folder is locked for as long as its owner lives. An owner that was killed cannot tidy up, so
whoever makes the next folder removes those that nobody holds any more.
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

NOBODY: Final = 65534
_ROOT: Final = Path("/tmp")  # noqa: S108 - mkdtemp makes the name, and nobody else may enter.
_PREFIX: Final = "headway-test-"
_IPC_RMID: Final = 0


def server_user_id() -> int | None:
    """The user that servers run as: nobody when we are root (PostgreSQL refuses root), else us."""
    return NOBODY if os.geteuid() == 0 else None


class Folder:
    def __init__(self, name: str) -> None:
        _remove_abandoned()
        # Locked before it gets the name that others look for.
        made = Path(tempfile.mkdtemp(prefix="new-headway-", dir=_ROOT))
        self._lock = (made / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.hand_over(made)
        self.path = made.rename(_ROOT / f"{_PREFIX}{name}{made.name.removeprefix('new-headway')}")

    def hand_over(self, path: Path) -> None:
        user_id = server_user_id()
        if user_id is not None:
            os.chown(path, user_id, user_id)

    def remove(self) -> None:
        _remove(self.path)
        self._lock.close()


def _remove_abandoned() -> None:
    for path in _ROOT.glob(f"{_PREFIX}*-*"):
        # Those that are held, being removed or another user's are left alone.
        with contextlib.suppress(OSError), (path / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)


def _remove(path: Path) -> None:
    release_shared_memory(path)
    shutil.rmtree(path, ignore_errors=True)


def release_shared_memory(path: Path) -> None:
    """Give back the System V segment of a killed PostgreSQL, which outlives every process."""
    for pid_file in path.glob("*/postmaster.pid"):
        lines = pid_file.read_text().splitlines()
        words = lines[6].split() if len(lines) > 6 else []
        if len(words) == 2:
            ctypes.CDLL(None).shmctl(int(words[1]), _IPC_RMID, None)
