"""Headway detects a SQLite file that is deleted or replaced, and never writes to it."""

import asyncio
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.core.errors import ConfigurationError, DatabaseFileLost, OutcomeUnknown
from headway.testing import a_submit
from tests.contract.scenes import read_status

pytestmark = pytest.mark.backend("sqlite")

SUFFIXES = ("", "-wal", "-shm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "headway.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def replace(path: Path) -> None:
    """Replace the database with a copy, as a restore from a backup does."""
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    copy.rename(path)


def make_empty(path: Path) -> None:
    path.touch()


def move(path: Path, to: Path) -> None:
    path.rename(to)


def exists(path: Path) -> bool:
    return path.exists()


def delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


@pytest.mark.proves("I3", "I20")
@pytest.mark.parametrize("lose", [delete, delete_all, replace])
async def test_no_submission_is_accepted_once_the_file_is_gone(
    url: str, path: Path, lose: Callable[[Path], None]
) -> None:
    store = await open_store([url])
    try:
        await store.apply(a_submit())
        lose(path)
        answers = await asyncio.gather(
            *(store.apply(a_submit(f"key-{number}")) for number in range(20)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [DatabaseFileLost] * 20
        with pytest.raises(DatabaseFileLost, match="the same file is back or headway is restarted"):
            await store.apply(a_submit())
    finally:
        await store.close()


@pytest.mark.proves("I3", "I20")
async def test_read_from_a_deleted_database_file_fails(url: str, path: Path) -> None:
    store = await open_store([url])
    try:
        run_id = (command := a_submit()).run_id
        await store.apply(command)
        delete(path)
        with pytest.raises(DatabaseFileLost):
            await read_status(store, run_id)
        assert not exists(path), "a reader has made a new file"
    finally:
        await store.close()


@pytest.mark.proves("I3", "I20")
async def test_deletion_during_a_commit_is_an_unknown_outcome(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store([url])
    commit = type(store.writer._link).commit

    async def delete_and_commit(*arguments: str | None) -> None:
        delete(path)
        await commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(store.writer._link), "commit", delete_and_commit)
    try:
        with pytest.raises(OutcomeUnknown):
            await store.apply(a_submit())
    finally:
        monkeypatch.undo()
        await store.close()


@pytest.mark.proves("I3")
async def test_deleted_log_is_noticed(url: str, path: Path) -> None:
    store = await open_store([url])
    try:
        await store.apply(a_submit())
        delete_log(path)
        with pytest.raises(OutcomeUnknown):  # The commit itself shows it.
            await store.apply(a_submit("bob"))
        with pytest.raises(DatabaseFileLost, match="separated from its write-ahead log"):
            await store.apply(a_submit())
    finally:
        await store.close()


@pytest.mark.proves("I3", "I20")
async def test_work_continues_when_the_same_file_is_moved_back(url: str, path: Path) -> None:
    store = await open_store([url])
    try:
        before, after = a_submit("ann"), a_submit("bob")
        await store.apply(before)
        away = path.with_name("away.db")
        move(path, away)
        with pytest.raises(DatabaseFileLost):
            await store.apply(a_submit("carl"))
        move(away, path)
        await store.apply(after)
    finally:
        await store.close()
    assert await read_stored_ids(url) == {before.run_id, after.run_id}


async def read_stored_ids(url: str) -> set[str]:
    store = await open_store([url])
    try:
        async with store._database.open_session() as session:
            rows = await session.exec_driver_sql("SELECT id FROM runs")
            return {str(run_id) for (run_id,) in rows}
    finally:
        await store.close()


@pytest.mark.proves("I3")
async def test_closing_does_not_delete_the_log_of_a_newer_database_file(
    url: str, path: Path, tmp_path: Path
) -> None:
    """Otherwise the end of the first process would delete commits of the second."""
    first = await open_store([url])
    await first.apply(a_submit())
    delete_all(path)
    second = await open_store([url])
    command = a_submit()
    await second.apply(command)
    await first.close()
    assert exists(Path(f"{path}-wal"))
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for suffix in SUFFIXES:  # As a power cut would leave it.
        shutil.copy(f"{path}{suffix}", crashed)
    await second.close()
    assert await read_stored_ids(f"sqlite:///{crashed / path.name}") == {command.run_id}


@pytest.mark.proves("I3")
@pytest.mark.parametrize("is_empty", [False, True])
async def test_new_database_file_is_not_created_beside_the_log_of_a_missing_one(
    url: str, path: Path, is_empty: bool
) -> None:
    """SQLite would delete the log, and with it commits that were answered."""
    first = await open_store([url])
    await first.apply(a_submit())
    delete(path)
    if is_empty:
        make_empty(path)
    before = sorted(os.listdir(path.parent))
    with pytest.raises(ConfigurationError, match=r"its log 'headway.db-wal' exists"):
        await open_store([url])
    assert sorted(os.listdir(path.parent)) == before
    await first.close()


@pytest.mark.proves("I20")
async def test_lost_database_file_is_logged_once_with_the_remedy(
    url: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store([url])
    try:
        delete(path)
        for _ in range(3):
            with pytest.raises(DatabaseFileLost):
                await store.apply(a_submit())
    finally:
        await store.close()
    (record,) = [
        record for record in caplog.records if vars(record)["event"] == "database_file_lost"
    ]
    assert record.levelno == logging.ERROR
    assert record.__dict__["path"] == str(path)
    assert "move the same files back" in record.__dict__["advice"]


async def test_store_in_memory_has_no_file() -> None:
    store: SqlStore = await open_store(["sqlite:///:memory:"])
    await store.apply(a_submit())
    await store.close()
