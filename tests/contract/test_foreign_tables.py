"""Headway detects and refuses another program's tables before it changes anything."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.sqlite import APPLICATION_ID
from headway.adapters.sql.sql_store import open_store
from headway.adapters.sql.tables import metadata
from headway.core.errors import ConfigurationError, ForeignDatabase, SchemaMismatch
from headway.testing import a_submit
from tests.contract.backends import upgrade
from tests.contract.test_schema import SERVERS, WITH_FILES, bare_url, check, run_sql, upgrade_to

__all__ = ["bare_url"]

THEIR_EVENTS = (
    "CREATE TABLE events (id INTEGER PRIMARY KEY, title VARCHAR(80))",
    "INSERT INTO events VALUES (1, 'concert')",
)
THEIR_VERSION = "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)"


async def read_everything(url: str) -> dict[str, Any]:
    """Return every table with its columns, indexes and rows."""

    def read(connection: sa.Connection) -> dict[str, Any]:
        inspector = sa.inspect(connection)
        return {
            name: (
                [str(column) for column in inspector.get_columns(name)],
                [(index["name"], index["column_names"]) for index in inspector.get_indexes(name)],
                connection.execute(sa.text(f"SELECT * FROM {name}")).fetchall(),  # noqa: S608
            )
            for name in inspector.get_table_names()
            if name != "writers"
        }

    database = Database(parse_addresses([url]), durability="process")
    try:
        async with database.open_session() as session:
            return await session.run_sync(read)
    finally:
        await database.close()


async def refusals(url: str) -> list[str]:
    """Return why each entry point refuses the database. The database must not change."""
    before = await read_everything(url)
    reasons = []
    for attempt in (check(url), upgrade(url), open_store([url])):
        with pytest.raises(ConfigurationError) as refused:
            await attempt
        reasons.append(str(refused.value))
    assert await read_everything(url) == before
    return reasons


@pytest.mark.proves("R8.5")
@SERVERS
async def test_foreign_table_with_the_name_of_a_headway_table_is_refused_and_unchanged(
    bare_url: str,
) -> None:
    await run_sql(bare_url, *THEIR_EVENTS)
    for reason in await refusals(bare_url):
        assert "seems to belong to another program: the table events (id, title) is not" in reason
        assert "give headway a database of its own" in reason


@pytest.mark.proves("R8.5")
@SERVERS
async def test_foreign_stream_table_is_refused_and_unchanged(bare_url: str) -> None:
    await run_sql(bare_url, "CREATE TABLE stream (id INTEGER PRIMARY KEY, title VARCHAR(80))")
    for reason in await refusals(bare_url):
        assert "the table stream (id, title) is not headway's" in reason


@pytest.mark.proves("R8.5")
@SERVERS
async def test_foreign_view_with_the_name_of_a_headway_table_is_refused_and_unchanged(
    bare_url: str,
) -> None:
    await run_sql(bare_url, "CREATE VIEW runs AS SELECT 1 AS one")
    for reason in await refusals(bare_url):
        assert "the table runs (one) is not headway's" in reason


@pytest.mark.proves("R8.5", "I23")
@pytest.mark.parametrize("revision", ["3f2a9c11d0aa", "0001", "0002", "0003", "0004"])
@SERVERS
async def test_foreign_version_table_is_not_mistaken_for_a_newer_headway_schema(
    bare_url: str, revision: str
) -> None:
    record = f"INSERT INTO alembic_version VALUES ('{revision}')"  # noqa: S608
    await run_sql(bare_url, THEIR_VERSION, record)
    for reason in await refusals(bare_url):
        assert "seems to belong to another program" in reason
        assert revision in reason
        assert "upgrade headway" not in reason


@pytest.mark.proves("R8.5")
@SERVERS
async def test_foreign_version_table_of_another_shape_is_refused(bare_url: str) -> None:
    await run_sql(bare_url, "CREATE TABLE alembic_version (revision VARCHAR(32))")
    for reason in await refusals(bare_url):
        assert "its table alembic_version (revision) records no revision" in reason


@pytest.mark.proves("R8.5")
@WITH_FILES
async def test_headway_table_that_another_program_replaced_is_refused(bare_url: str) -> None:
    await upgrade(bare_url)
    await run_sql(bare_url, "DROP TABLE events", *THEIR_EVENTS)
    for reason in await refusals(bare_url):
        assert "but the table events (id, title) is not headway's" in reason


@pytest.mark.proves("R8.5")
@WITH_FILES
async def test_missing_headway_table_is_named(bare_url: str) -> None:
    await upgrade(bare_url)
    await run_sql(bare_url, "DROP TABLE inbox", "DROP TABLE interrupts")
    for reason in await refusals(bare_url):
        assert "records revision" in reason
        assert "but lacks the tables inbox, interrupts" in reason


@pytest.mark.proves("R8.5")
async def test_foreign_sqlite_file_names_its_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'theirs.db'}"
    await run_sql(url, *THEIR_EVENTS)
    for reason in await refusals(url):
        assert "belongs to another program (its tables: events); name another file" in reason


@pytest.mark.proves("R8.5")
async def test_foreign_tables_in_a_sqlite_file_marked_as_headway_are_refused(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'marked.db'}"
    await run_sql(url, *THEIR_EVENTS, f"PRAGMA application_id = {APPLICATION_ID}")
    for reason in await refusals(url):
        assert "the table events (id, title) is not headway's" in reason


@pytest.mark.proves("R8.5")
@SERVERS
async def test_foreign_tables_with_other_names_are_allowed(bare_url: str) -> None:
    await run_sql(bare_url, "CREATE TABLE invoices (id INTEGER PRIMARY KEY)")
    await upgrade(bare_url)
    store = await open_store([bare_url])
    await store.apply(a_submit())
    await store.close()


@pytest.mark.proves("R8.5", "I23")
@WITH_FILES
async def test_newer_headway_schema_is_reported_as_newer_and_not_as_foreign(bare_url: str) -> None:
    await upgrade(bare_url)
    await run_sql(
        bare_url,
        "ALTER TABLE events ADD COLUMN later INTEGER",
        "UPDATE alembic_version SET version_num = '9999'",
    )
    for attempt in (check(bare_url), upgrade(bare_url), open_store([bare_url])):
        with pytest.raises(SchemaMismatch, match=r"at 9999, .* newer .* upgrade headway"):
            await attempt


@pytest.mark.proves("R8.5", "I23")
@pytest.mark.parametrize("is_recorded", [False, True])
@WITH_FILES
async def test_interrupted_upgrade_is_continued(
    bare_url: str, is_recorded: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """MariaDB leaves some tables or columns, and the revision is not recorded."""
    if is_recorded:
        await upgrade_to(bare_url, "0002", monkeypatch, tmp_path)
        await run_sql(
            bare_url,
            "ALTER TABLE lanes DROP COLUMN configured_limit",
            "UPDATE alembic_version SET version_num = '0001'",
        )
    else:
        await upgrade_to(bare_url, "0001", monkeypatch, tmp_path)
        await run_sql(bare_url, "DELETE FROM alembic_version", "DROP TABLE saved_keys")
    with pytest.raises(SchemaMismatch, match="run: headway db upgrade"):
        await check(bare_url)
    await upgrade(bare_url)
    store = await open_store([bare_url])
    await store.apply(a_submit())
    await store.close()


@pytest.mark.proves("R8.5")
def test_error_names_the_database_and_the_reason() -> None:
    error = ForeignDatabase("postgresql://db/app", "the table events is not headway's")
    assert (error.database, error.evidence) == (
        "postgresql://db/app",
        "the table events is not headway's",
    )
    assert "postgresql://db/app" in str(error)


def test_every_table_has_a_primary_key_by_which_it_is_recognized() -> None:
    assert all(table.primary_key.columns for table in metadata.sorted_tables)


@pytest.mark.proves("R8.5")
@SERVERS
async def test_foreign_table_with_an_old_name_is_refused_only_before_the_upgrade(
    bare_url: str,
) -> None:
    theirs = "CREATE TABLE questions (id INTEGER PRIMARY KEY, title VARCHAR(80))"
    await run_sql(bare_url, theirs)
    for reason in await refusals(bare_url):
        assert "the table questions (id, title) is not headway's" in reason
    await run_sql(bare_url, "DROP TABLE questions")
    await upgrade(bare_url)
    await run_sql(bare_url, theirs)
    store = await open_store([bare_url])
    await store.close()
