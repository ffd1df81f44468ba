"""The lock that a process holds while it lives: whose it is, and what may be concluded from it."""

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
name = lock.take()
ready, done = os.pipe()


def fork_and_wait():
    child = os.fork()
    if child == 0:
        os.write(done, b"1")
        signal.pause()
    os.read(ready, 1)
    return child


with ThreadPoolExecutor() as threads:  # As `asyncio.to_thread` does.
    child = threads.submit(fork_and_wait).result()
print(name, child, flush=True)
signal.pause()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[FileLifeLock]:
    lock = FileLifeLock(tmp_path, prefix="db")
    yield lock
    lock.release()


def taken(lock: FileLifeLock) -> str:
    name = lock.acquire()
    assert name is not None
    return name


def left_behind(folder: Path, *, prefix: str = "db") -> str:
    """The name of a lock that is free, as after a crash."""
    lock = FileLifeLock(folder, prefix=prefix)
    name = taken(lock)
    assert lock._descriptor is not None
    os.close(lock._descriptor)
    return name


@pytest.mark.proves("I8")
def test_a_lock_is_taken_once_and_is_for_its_owner_alone(
    lock: FileLifeLock, tmp_path: Path
) -> None:
    name = taken(lock)
    assert taken(lock) == name
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert not lock.is_free(name)
    lock.release()
    assert list(tmp_path.iterdir()) == []
    assert not lock.is_free(name)


@pytest.mark.proves("I8")
def test_a_free_lock_is_found_by_all_and_removed(lock: FileLifeLock, tmp_path: Path) -> None:
    name = left_behind(tmp_path)
    assert lock.is_free(name)
    assert FileLifeLock(tmp_path, prefix="db").is_free(name)
    lock.remove(name)
    assert list(tmp_path.iterdir()) == []
    lock.remove(name)


@pytest.mark.proves("I8")
def test_a_lock_that_is_held_is_not_removed(lock: FileLifeLock, tmp_path: Path) -> None:
    name = taken(lock)
    another = FileLifeLock(tmp_path, prefix="db")
    another.remove(name)
    another.remove_stale([])
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.proves("I8")
@pytest.mark.parametrize("name", ["", "free", "../../etc/passwd", "a:b:c:d", f"{'0' * 36}:1:1:.."])
def test_what_is_no_name_proves_nothing(lock: FileLifeLock, name: str) -> None:
    assert not lock.is_free(name)
    lock.remove(name)


@pytest.mark.proves("I8")
def test_who_starts_cleans_up_but_keeps_what_the_database_knows(
    lock: FileLifeLock, tmp_path: Path
) -> None:
    known, forgotten = left_behind(tmp_path), left_behind(tmp_path)
    neighbour = left_behind(tmp_path, prefix="other")
    (tmp_path / "db-notes.alive").touch()
    lock.acquire()
    lock.remove_stale([known])
    assert lock.is_free(known)
    assert not lock.is_free(forgotten)
    assert FileLifeLock(tmp_path, prefix="other").is_free(neighbour)
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.proves("I8")
def test_neighbours_are_those_who_hold_a_lock_on_the_same_database(
    lock: FileLifeLock, tmp_path: Path
) -> None:
    left_behind(tmp_path)
    elsewhere, beside = (FileLifeLock(tmp_path, prefix=prefix) for prefix in ("other", "db"))
    lock.acquire()
    elsewhere.acquire()
    assert not lock.has_other_processes()
    beside.acquire()
    assert lock.has_other_processes()
    elsewhere.release()
    beside.release()
    assert not lock.has_other_processes()


@pytest.mark.backend("sqlite")
@pytest.mark.parametrize(("safe_from", "is_told"), [((99,), True), ((0,), False)])
async def test_who_shares_a_file_with_an_old_library_is_told_at_start(
    url: str,
    safe_from: tuple[int, ...],
    is_told: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sqlite, "SAFE_TO_SHARE", safe_from)
    told = "sqlite_file_shared_with_an_old_library"
    async with Headway(url):
        assert told not in caplog.text
        async with Headway(url):
            assert (told in caplog.text) is is_told


@pytest.mark.proves("I8")
def test_where_no_file_can_be_made_there_is_no_lock(tmp_path: Path) -> None:
    assert FileLifeLock(tmp_path / "missing", prefix="db").acquire() is None
    nowhere = FileLifeLock(None, prefix="db")
    assert nowhere.acquire() is None
    assert not nowhere.is_free(left_behind(tmp_path))
    nowhere.remove_stale([])
    nowhere.release()


@pytest.mark.proves("I8")
def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(
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
            assert not lock.is_free(name)  # The child has not opened it for its parent.
            parent.kill()
            parent.wait()
            assert lock.is_free(name)
            assert not select.select([descriptor], [], [], 0)[0]  # The child lives.
        finally:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)


@pytest.mark.proves("S10")
def test_the_runtime_folder_is_the_users_alone(
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
def test_without_a_runtime_folder_it_is_a_private_one_below_the_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runtime_folder() == tmp_path / f"headway-{os.geteuid()}"
