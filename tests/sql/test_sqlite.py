"""SQLite in a file and in memory (R4.2)."""

import asyncio
import sqlite3
import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.sqlite import Durability, open_sqlite
from headway.adapters.sql.sql_store import open_store
from headway.core.errors import ConfigurationError
from headway.testing import a_submit

PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": 1,
    "cache_size": -64000,
    "foreign_keys": 1,
    "busy_timeout": 5000,
    "wal_autocheckpoint": 0,
}


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite"])
async def test_every_new_connection_has_the_pragmas(database: Database) -> None:
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(database.open_session()) for _ in range(7)]
        for connection in sessions:
            pragmas = {
                name: (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
                for name in PRAGMAS
            }
            assert pragmas == PRAGMAS


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize(("durability", "synchronous"), [("process", 1), ("power", 2)])
async def test_durability_setting_decides_what_a_commit_survives(
    durability: Durability, synchronous: int, tmp_path: Path
) -> None:
    database = Database(parse_addresses([f"sqlite:///{tmp_path}/a.db"]), durability=durability)
    async with database.open_session() as connection:
        assert (await connection.execute(text("PRAGMA synchronous"))).scalar_one() == synchronous
    await database.close()


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite"])
async def test_read_and_the_write_based_on_it_are_atomic(database: Database) -> None:
    async with database.engine.begin() as connection:
        await connection.execute(text("CREATE TABLE counter (value INTEGER)"))
        await connection.execute(text("INSERT INTO counter VALUES (0)"))

    async def add_one() -> None:
        for _ in range(30):
            async with database.engine.begin() as connection:
                value = (await connection.execute(text("SELECT value FROM counter"))).scalar_one()
                await asyncio.sleep(0)
                changed = text("UPDATE counter SET value = :value")
                await connection.execute(changed, {"value": value + 1})

    await asyncio.gather(*(add_one() for _ in range(4)))
    async with database.open_session() as connection:
        assert (await connection.execute(text("SELECT value FROM counter"))).scalar_one() == 120


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite"])
async def test_reader_does_not_wait_for_a_writer(database: Database, tmp_path: Path) -> None:
    writer = open_sqlite(f"{tmp_path}/headway.db", durability="process")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("CREATE TABLE fruit (name TEXT)")
    async with asyncio.timeout(2), database.open_session() as connection:
        tables = await connection.execute(text("SELECT count(*) FROM sqlite_schema"))
        assert tables.scalar_one() == 0
    writer.rollback()
    writer.close()


@pytest.mark.proves("S10")
def test_new_database_is_accessible_to_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "headway.db"
    connection = open_sqlite(str(path), durability="process")
    connection.execute("CREATE TABLE fruit (name TEXT)")
    for file in (path, path.with_name("headway.db-wal"), path.with_name("headway.db-shm")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    connection.close()


@pytest.mark.proves("S10")
def test_existing_database_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "headway.db"
    path.touch()
    path.chmod(0o640)
    open_sqlite(str(path), durability="process").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.proves("R4.2")
def test_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(ConfigurationError, match=r"taken/headway\.db"):
        open_sqlite(f"{tmp_path}/taken/headway.db", durability="process")


@pytest.mark.proves("R4.2")
def test_file_that_is_not_a_database_is_named_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ann, " * 200)
    with pytest.raises(ConfigurationError, match=r"letter\.txt"):
        open_sqlite(str(path), durability="process")
    assert path.read_text().startswith("Dear Ann")


@pytest.mark.proves("R4.2")
def test_memory_database_creates_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_sqlite(":memory:", durability="process").close()
    assert not list(tmp_path.iterdir())


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite-memory"])
async def test_memory_database_uses_one_connection_for_all_sessions(database: Database) -> None:
    assert database.memory_connection is not None
    database.memory_connection.execute("CREATE TABLE fruit (name TEXT)")
    for _ in range(3):
        async with database.open_session() as connection:
            await connection.execute(text("SELECT * FROM fruit"))


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite-memory"])
async def test_memory_database_hides_uncommitted_rows(database: Database) -> None:
    writer, gate = database.memory_connection, database.memory_lock
    assert writer is not None
    assert gate is not None
    writer.execute("CREATE TABLE fruit (name TEXT)")

    async def count() -> int:
        async with database.open_session() as connection:
            return int((await connection.execute(text("SELECT count(*) FROM fruit"))).scalar_one())

    gate.acquire()
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO fruit VALUES ('fig')")
    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count())
        done, _ = await asyncio.wait([counting], timeout=0.05)
        assert not done
        writer.execute("ROLLBACK")
        gate.release()
    assert counting.result() == 0


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite-memory"])
async def test_canceled_wait_for_a_memory_session_does_not_release_the_lock(
    database: Database,
) -> None:
    gate = database.memory_lock
    assert gate is not None

    async def open_and_close() -> None:
        async with database.open_session():
            assert gate.locked()

    gate.acquire()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(open_and_close())
        await asyncio.wait([waiting], timeout=0.05)  # It is first in the queue.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await open_and_close()
        # It did not admit the next waiter, because it does not own the gate.
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        gate.release()
    async with asyncio.timeout(2):
        await open_and_close()
    assert not gate.locked()


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite-memory"])
async def test_closed_memory_database_is_closed_for_the_writer_too(database: Database) -> None:
    assert database.memory_connection is not None
    await database.close()
    with pytest.raises(sqlite3.ProgrammingError):
        database.memory_connection.execute("SELECT 1")


@pytest.mark.proves("I19")
async def test_write_ahead_log_is_also_checkpointed_after_few_large_rows(tmp_path: Path) -> None:
    path = tmp_path / "headway.db"
    store = await open_store([f"sqlite:///{path}"])
    try:
        for number in range(60):
            await store.apply(a_submit(f"key-{number}", params={"text": "x" * 900_000}))
        assert (tmp_path / "headway.db-wal").stat().st_size < 24 << 20
    finally:
        await store.close()
