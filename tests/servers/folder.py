"""The folder of a throw-away server: under /tmp, because socket paths must stay short.

A folder is locked as long as its owner runs. An owner that was killed cannot remove its folder, so
the next process that creates a folder removes all unlocked ones.
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
_ROOT: Final = Path("/tmp")  # noqa: S108 - mkdtemp makes the name, and only its owner may enter.
_PREFIX: Final = "headway-test-"
_IPC_RMID: Final = 0


def server_user_id() -> int | None:
    """Return the user that servers run as:

    `nobody` for root (PostgreSQL refuses root), else our own.
    """
    return NOBODY if os.geteuid() == 0 else None


class Folder:
    def __init__(self, name: str) -> None:
        _remove_abandoned()
        # Locked before it gets the name that other processes search for.
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
        # Folders that are locked, being removed or owned by another user are left alone.
        with contextlib.suppress(OSError), (path / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)


def _remove(path: Path) -> None:
    release_shared_memory(path)
    shutil.rmtree(path, ignore_errors=True)


def release_shared_memory(path: Path) -> None:
    """Release the System V segment of a killed PostgreSQL, which remains after its processes."""
    for pid_file in path.glob("*/postmaster.pid"):
        lines = pid_file.read_text().splitlines()
        words = lines[6].split() if len(lines) > 6 else []
        if len(words) == 2:
            ctypes.CDLL(None).shmctl(int(words[1]), _IPC_RMID, None)
