"""The schema version: checked at start, upgraded once, and refused if it is foreign."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from headway.adapters.sql import schema
from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.schema import check_schema
from headway.adapters.sql.sql_store import open_store
from headway.adapters.sql.tables import metadata
from headway.core.errors import ConfigurationError, SchemaMismatch
from headway.core.ids import RunId
from headway.core.run.status import RunStatus
from headway.testing import FakeClock, a_submit
from tests.contract.backends import DatabaseTarget, open_target, upgrade
from tests.contract.scenes import read_status

EVERY_KIND = pytest.mark.parametrize(
    "backend", ["sqlite-file", "sqlite-memory", "postgres", "mariadb"], indirect=True
)
WITH_FILES = pytest.mark.parametrize(
    "backend", ["sqlite-file", "postgres", "mariadb"], indirect=True
)
SERVERS = pytest.mark.parametrize("backend", ["postgres", "mariadb"], indirect=True)
BROKEN_RULE = r"(?i)check|constraint|unique|duplicate"
NEXT = '''
"""A migration of the next version of headway."""
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "9000", "0004", None, None
def upgrade():
    op.create_table("next_things", sa.Column("id", sa.Integer(), primary_key=True))
'''


OLD_RUN = """
INSERT INTO runs (seq, id, "key", lane, job, mode, recovery, status, generation, token, attempt,
    death_count, is_interactive, unread_count, queued_at, started_at, ended_at, run_seq, revision,
    is_parent, params)
VALUES (1, 'old', 'ann', 'main', 'mirror', 'start', 'resume', 'succeeded', 1, '', 1,
    0, 0, 0, 1, 2, 3, 3, 3, 0, '{}')
"""
OLD_QUESTION = """
INSERT INTO questions (run_id, call_id, generation, question, asked_at, answer_by)
VALUES ('old', 'delete', 1, '{"really": true}', 4, 5)
"""
OLD_IDEMPOTENCY_KEY = """
INSERT INTO remembered (idempotency_key, run_id, fingerprint, at) VALUES ('once', 'old', 'f', 6)
"""


@pytest.fixture
def bare_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of this kind."""
    family = backend.partition("-")[0]
    if family == "sqlite":
        yield f"sqlite:///{tmp_path / 'bare.db'}"
        return
    server = request.getfixturevalue(f"{family}_server")
    name = f"bare_{uuid4().hex[:12]}"
    server.create_database(name)
    try:
        yield server.url(name)
    finally:
        server.drop_database(name)


@contextmanager
def next_version(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Run as a program with one more migration."""
    versions = folder / "versions"
    versions.mkdir()
    (versions / "m9000_next.py").write_text(NEXT)
    folders = [*schema._version_folders(), versions]
    with monkeypatch.context() as patched:
        patched.setattr(schema, "_version_folders", lambda: folders)
        yield


async def run_sql(url: str, *statements: str) -> None:
    database = Database(parse_addresses([url]), durability="process")
    try:
        async with database.open_write_session() as connection:
            for statement in statements:
                await connection.execute(sa.text(statement))
            await connection.commit()
    finally:
        await database.close()


async def check(url: str) -> str:
    addresses = parse_addresses([url])
    database = Database(addresses, durability="process")
    try:
        return await check_schema(database, addresses[0])
    finally:
        await database.close()


@pytest.mark.proves("R4.3")
@SERVERS
async def test_server_without_the_schema_stops_the_start(bare_url: str) -> None:
    """The start does not create it; the message names the command that does."""
    for _ in range(2):
        with pytest.raises(SchemaMismatch, match="no headway schema; run: headway db upgrade"):
            await open_store([bare_url])


@pytest.mark.proves("R4.3")
@SERVERS
async def test_program_starts_after_the_upgrade(bare_url: str) -> None:
    assert await upgrade(bare_url) == "0004"
    assert await check(bare_url) == "0004"
    store = await open_store([bare_url])
    await store.close()


@pytest.mark.proves("I23")
@WITH_FILES
async def test_newer_schema_is_refused(bare_url: str) -> None:
    await upgrade(bare_url)
    await run_sql(bare_url, "UPDATE alembic_version SET version_num = '9999'")
    for attempt in (open_store([bare_url]), upgrade(bare_url), check(bare_url)):
        with pytest.raises(SchemaMismatch, match=r"at 9999, .* newer .* upgrade headway"):
            await attempt


@pytest.mark.proves("R4.3")
@SERVERS
async def test_older_schema_is_refused_until_it_is_upgraded(
    bare_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await upgrade(bare_url)
    with next_version(monkeypatch, tmp_path):
        with pytest.raises(SchemaMismatch, match="at 0004, this program needs 9000; run: headway"):
            await open_store([bare_url])
        assert await upgrade(bare_url) == "9000"
        store = await open_store([bare_url])
        await store.close()


@pytest.mark.proves("I23")
@WITH_FILES
async def test_simultaneous_upgrades_run_each_migration_once(
    bare_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second migration cannot run twice, because its table would exist already."""
    with next_version(monkeypatch, tmp_path):
        assert await asyncio.gather(*(upgrade(bare_url) for _ in range(4))) == ["9000"] * 4
        store = await open_store([bare_url])
        (main, *_) = [view for view in await store.runs.lanes() if view.lane.name == "main"]
        assert main.lane.max_concurrent == 3
        await store.close()


@WITH_FILES
@pytest.mark.proves("I23")
async def test_database_of_the_first_revision_is_upgraded_with_its_data(
    bare_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await upgrade_to(bare_url, "0001", monkeypatch, tmp_path)
    is_mariadb = "mysql" in bare_url or "mariadb" in bare_url
    run = OLD_RUN.replace('"key"', "`key`") if is_mariadb else OLD_RUN
    await run_sql(bare_url, run, OLD_QUESTION, OLD_IDEMPOTENCY_KEY)
    assert await upgrade(bare_url) == "0004"
    store = await open_store([bare_url])
    record = await store.runs.run(RunId("old"))
    await store.close()
    assert record is not None
    assert (record.run.status, record.run.stop_count) == (RunStatus.SUCCEEDED, 0)
    assert (record.run.updated_at, record.traceback) == (3, None)
    rows = await fetch_rows(
        bare_url,
        "SELECT run_id, call_id, question, asked_at, answer_deadline_at FROM interrupts",
        "SELECT idempotency_key, run_id, fingerprint, at FROM idempotency_keys",
    )
    assert rows == [("old", "delete", '{"really": true}', 4, 5), ("once", "old", "f", 6)]


@WITH_FILES
@pytest.mark.proves("R4.3")
async def test_renamed_tables_have_constraints_and_indexes_of_the_same_name(bare_url: str) -> None:
    await upgrade(bare_url)
    database = Database(parse_addresses([bare_url]), durability="process")
    try:
        async with database.open_session() as session:
            names = await session.run_sync(read_names)
    finally:
        await database.close()
    assert "ix_idempotency_keys_at" in names
    assert not [name for name in names if "questions" in name or "remembered" in name]


def read_names(connection: sa.Connection) -> list[str]:
    """Return the names of all tables, indexes and constraints."""
    if connection.dialect.name == "sqlite":  # The SQL of a table names its constraints.
        query = "SELECT name FROM sqlite_master UNION SELECT coalesce(sql, '') FROM sqlite_master"
        return list(connection.scalars(sa.text(query)))
    names = []
    inspector = sa.inspect(connection)
    for table in inspector.get_table_names():
        indexes = inspector.get_indexes(table)
        names += [table, *(str(index["name"]) for index in indexes)]
    if connection.dialect.name == "postgresql":
        names += connection.scalars(sa.text("SELECT conname FROM pg_constraint")).all()
    return names


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@pytest.mark.proves("I23")
async def test_interrupted_renaming_of_tables_is_continued(
    bare_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """MariaDB commits each statement by itself."""
    await upgrade_to(bare_url, "0003", monkeypatch, tmp_path)
    await run_sql(
        bare_url,
        "RENAME TABLE questions TO interrupts",
        "RENAME TABLE remembered TO idempotency_keys",
    )
    assert await upgrade(bare_url) == "0004"
    store = await open_store([bare_url])
    await store.close()


async def upgrade_to(
    url: str, revision: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Run the migrations up to this revision, as an earlier program does."""
    versions = folder / f"up-to-{revision}"
    copy_migrations(versions, revision)
    with monkeypatch.context() as patched:
        patched.setattr(schema, "_version_folders", lambda: [versions])
        assert await upgrade(url) == revision


def copy_migrations(versions: Path, last_revision: str) -> None:
    (source,) = schema._version_folders()
    versions.mkdir()
    for file in source.glob("m*.py"):
        if file.name[1:5] <= last_revision:
            shutil.copy(file, versions)


async def fetch_rows(url: str, *queries: str) -> list[tuple[Any, ...]]:
    database = Database(parse_addresses([url]), durability="process")
    try:
        async with database.open_session() as session:
            results = [await session.execute(sa.text(query)) for query in queries]
            return [tuple(row) for result in results for row in result]
    finally:
        await database.close()


@pytest.mark.proves("R4.3")
@EVERY_KIND
async def test_migrations_create_the_tables_that_the_program_uses(
    target: DatabaseTarget, clock: FakeClock
) -> None:
    def compare(connection: sa.Connection) -> list[Any]:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return list(compare_metadata(context, metadata))

    async with open_target(target, clock) as store, store._database.open_session() as session:
        assert await session.run_sync(compare) == []


@pytest.mark.proves("R4.3")
@WITH_FILES
async def test_database_refuses_invalid_rows(target: DatabaseTarget, clock: FakeClock) -> None:
    """The table constraints are in the database as well, not only in the program."""
    async with open_target(target, clock) as store:
        await store.apply(a_submit("ann"))
        await store.apply(a_submit("bob"))
    for impossible in (
        "UPDATE runs SET head_key = 'ann'",
        "UPDATE runs SET ended_at = 1",
        "UPDATE runs SET status = 'failed'",
        "UPDATE runs SET head_key = NULL, slot = 'main'",
        "UPDATE runs SET waiting_key = 'ann'",
        "UPDATE runs SET instance_id = 'me'",
        "UPDATE events SET run_id = 'one', run_seq = 1",
    ):
        with pytest.raises((sa.exc.IntegrityError, sa.exc.OperationalError), match=BROKEN_RULE):
            await run_sql(target.urls[-1], impossible)


# SQLite is created and upgraded by a start.


@pytest.mark.proves("R4.2")
async def test_sqlite_file_is_created_at_start(tmp_path: Path, clock: FakeClock) -> None:
    target = DatabaseTarget("sqlite-file", [f"sqlite:///{tmp_path / 'new' / 'headway.db'}"])
    async with open_target(target, clock) as store:
        command = a_submit()
        await store.apply(command)
    async with open_target(target, clock) as store:
        assert await read_status(store, command.run_id) is RunStatus.QUEUED


@pytest.mark.proves("I23")
async def test_sqlite_file_is_copied_before_it_is_upgraded(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "headway.db"
    target = DatabaseTarget("sqlite-file", [f"sqlite:///{path}"])
    command = a_submit()
    async with open_target(target, clock) as store:
        await store.apply(command)
    copy = path.with_name("headway.db.before-0004")
    assert not copy.exists()
    with next_version(monkeypatch, tmp_path):
        async with open_target(target, clock) as store:
            assert await read_status(store, command.run_id) is RunStatus.QUEUED
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as old, closing(sqlite3.connect(path)) as new:
        assert old.execute("SELECT id FROM runs").fetchall() == [(command.run_id,)]
        assert old.execute("SELECT version_num FROM alembic_version").fetchall() == [("0004",)]
        assert new.execute("SELECT version_num FROM alembic_version").fetchall() == [("9000",)]


@pytest.mark.proves("I23")
async def test_failed_upgrade_leaves_everything_unchanged(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "headway.db"
    target = DatabaseTarget("sqlite-file", [f"sqlite:///{path}"])
    async with open_target(target, clock):
        pass
    with closing(sqlite3.connect(path)) as stranger:
        stranger.execute("CREATE TABLE next_things (id INTEGER)")
    with (
        next_version(monkeypatch, tmp_path),
        pytest.raises(ConfigurationError, match="next_things"),
    ):
        await open_store(target.urls)
    async with open_target(target, clock) as store:  # The earlier program can still use it.
        await store.apply(a_submit())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.proves("R4.2")
async def test_file_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE bookmarks (url TEXT)")
        theirs.execute("INSERT INTO bookmarks VALUES ('https://example.org')")
        theirs.commit()
    before = contents(tmp_path)
    with pytest.raises(
        ConfigurationError, match=r"another program \(its tables: bookmarks\); name another"
    ):
        await open_store([f"sqlite:///{path}"])
    assert contents(tmp_path) == before


def break_file(path: Path, damage: str, *, whole: Path) -> None:
    cut_off = whole.read_bytes()[:5000]
    path.write_bytes(cut_off if damage == "cut off" else b"Dear diary, " * 1000)


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("damage", ["not SQLite at all", "cut off"])
async def test_file_that_is_not_a_database_is_refused_and_unchanged(
    tmp_path: Path, new_sqlite_file: Path, damage: str
) -> None:
    path = tmp_path / "broken.db"
    break_file(path, damage, whole=new_sqlite_file)
    before = contents(tmp_path)
    with pytest.raises(ConfigurationError, match=r"broken\.db"):
        await open_store([f"sqlite:///{path}"])
    assert contents(tmp_path) == before
