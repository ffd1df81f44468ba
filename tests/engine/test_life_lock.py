"""The lock that each process holds: its owner, and what a free or missing lock proves."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import Headway
from headway.adapters.sql.connect import sqlite
from headway.adapters.system.file_life_lock import FileLifeLock, runtime_folder
from tests.cli.command import environment

PROGRAM = """
import os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from headway import Headway
from headway.adapters.sql.connect import sqlite
from headway.adapters.system.file_life_lock import FileLifeLock

lock = FileLifeLock(Path(sys.argv[1]), prefix="db")
name = lock.acquire()
ready, done = os.pipe()


def fork_and_wait():
    child = os.fork()
    if child == 0:
        os.write(done, b"1")
        signal.pause()
    os.read(ready, 1)
    return child


with ThreadPoolExecutor() as threads:  # Like `asyncio.to_thread`.
    child = threads.submit(fork_and_wait).result()
print(name, child, flush=True)
signal.pause()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[FileLifeLock]:
    lock = FileLifeLock(tmp_path, prefix="db")
    yield lock
    lock.release()


def acquire_name(lock: FileLifeLock) -> str:
    name = lock.acquire()
    assert name is not None
    return name


def leave_stale_lock(folder: Path, *, prefix: str = "db") -> str:
    """Return the name of a lock whose file remains but is free, as after a crash."""
    lock = FileLifeLock(folder, prefix=prefix)
    name = acquire_name(lock)
    assert lock._descriptor is not None
    os.close(lock._descriptor)
    return name


@pytest.mark.proves("I8")
def test_a_lock_is_acquired_once_and_only_its_owner_can_read_it(
    lock: FileLifeLock, tmp_path: Path
) -> None:
    name = acquire_name(lock)
    assert acquire_name(lock) == name
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert not lock.is_free(name)
    lock.release()
    assert list(tmp_path.iterdir()) == []
    assert not lock.is_free(name)


@pytest.mark.proves("I8")
def test_every_process_can_detect_and_remove_a_free_lock(
    lock: FileLifeLock, tmp_path: Path
) -> None:
    name = leave_stale_lock(tmp_path)
    assert lock.is_free(name)
    assert FileLifeLock(tmp_path, prefix="db").is_free(name)
    lock.remove(name)
    assert list(tmp_path.iterdir()) == []
    lock.remove(name)


@pytest.mark.proves("I8")
def test_a_lock_that_is_held_is_not_removed(lock: FileLifeLock, tmp_path: Path) -> None:
    name = acquire_name(lock)
    another = FileLifeLock(tmp_path, prefix="db")
    another.remove(name)
    another.remove_stale([])
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.proves("I8")
@pytest.mark.parametrize("name", ["", "free", "../../etc/passwd", "a:b:c:d", f"{'0' * 36}:1:1:.."])
def test_an_invalid_lock_name_is_not_reported_as_free(lock: FileLifeLock, name: str) -> None:
    assert not lock.is_free(name)
    lock.remove(name)


@pytest.mark.proves("I8")
def test_stale_locks_are_removed_unless_the_database_lists_them(
    lock: FileLifeLock, tmp_path: Path
) -> None:
    listed, unlisted = leave_stale_lock(tmp_path), leave_stale_lock(tmp_path)
    neighbour = leave_stale_lock(tmp_path, prefix="other")
    (tmp_path / "db-notes.alive").touch()
    lock.acquire()
    lock.remove_stale([listed])
    assert lock.is_free(listed)
    assert not lock.is_free(unlisted)
    assert FileLifeLock(tmp_path, prefix="other").is_free(neighbour)
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.proves("I8")
def test_other_processes_are_counted_only_on_the_same_database(
    lock: FileLifeLock, tmp_path: Path
) -> None:
    leave_stale_lock(tmp_path)
    other_database, same_database = (
        FileLifeLock(tmp_path, prefix=prefix) for prefix in ("other", "db")
    )
    lock.acquire()
    other_database.acquire()
    assert not lock.has_other_processes()
    same_database.acquire()
    assert lock.has_other_processes()
    other_database.release()
    same_database.release()
    assert not lock.has_other_processes()


@pytest.mark.backend("sqlite")
@pytest.mark.parametrize(("safe_from", "is_logged"), [((99,), True), ((0,), False)])
async def test_an_old_sqlite_version_is_logged_if_two_processes_share_the_file(
    url: str,
    safe_from: tuple[int, ...],
    is_logged: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sqlite, "SAFE_TO_SHARE", safe_from)
    event = "old_sqlite_version_detected"
    async with Headway(url):
        assert event not in caplog.text
        async with Headway(url):
            assert (event in caplog.text) is is_logged


@pytest.mark.proves("I8")
def test_without_a_writable_folder_there_is_no_lock(tmp_path: Path) -> None:
    assert FileLifeLock(tmp_path / "missing", prefix="db").acquire() is None
    nowhere = FileLifeLock(None, prefix="db")
    assert nowhere.acquire() is None
    assert not nowhere.is_free(leave_stale_lock(tmp_path))
    nowhere.remove_stale([])
    nowhere.release()


@pytest.mark.proves("I8")
def test_a_forked_child_does_not_hold_the_lock_of_its_dead_parent(
    lock: FileLifeLock, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        name, child = parent.stdout.readline().split()
        descriptor = os.pidfd_open(int(child))
        try:
            assert not lock.is_free(name)  # The fork has not released the parent's lock.
            parent.kill()
            parent.wait()
            assert lock.is_free(name)
            assert not select.select([descriptor], [], [], 0)[0]  # The child still runs.
        finally:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)


@pytest.mark.proves("S10")
def test_the_runtime_folder_must_be_private_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = runtime_folder()
    assert folder == tmp_path / "headway"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert runtime_folder() is None
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert runtime_folder() is None
    folder.unlink()
    folder.touch(mode=0o600)
    assert runtime_folder() is None


@pytest.mark.proves("S10")
def test_without_a_runtime_folder_a_private_temporary_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runtime_folder() == tmp_path / f"headway-{os.geteuid()}"
