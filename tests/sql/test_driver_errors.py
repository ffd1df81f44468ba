"""The classification of driver errors, provoked by raw connections to real databases."""

import asyncio
import errno
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from pymysql.err import MySQLError
from sqlalchemy.exc import DBAPIError

from headway.adapters.sql.connect.driver_errors import (
    is_disconnect,
    is_duplicate,
    is_read_only,
    is_serialization_conflict,
    to_store_error,
)
from headway.adapters.sql.connect.server_check import Purpose, RawConnection
from headway.adapters.sql.connect.sqlite import open_sqlite
from headway.core.errors import DatabaseUnavailable, StoreFailed
from tests.servers import MariaDBServer
from tests.sql.nodes import Node, make_connector, make_stream, open_connection, run, start


def list_meanings(error: BaseException) -> list[str]:
    kinds = (is_disconnect, is_duplicate, is_read_only, is_serialization_conflict)
    return [kind.__name__ for kind in kinds if kind(error)]


async def run_and_classify(connection: RawConnection, statement: str) -> list[str]:
    with pytest.raises(Exception) as failed:  # noqa: PT011  (the kind is the result)
        await run(connection, statement)
    return list_meanings(failed.value)


@pytest.fixture
def node(a_node: Callable[[], Node]) -> Node:
    node = a_node()
    make_stream(node)
    return node


@pytest.fixture
async def connection(node: Node) -> AsyncIterator[RawConnection]:
    async with open_connection(make_connector(node), Purpose.WRITE) as connection:
        yield connection


@pytest.mark.proves("R4.6")
async def test_insert_of_an_existing_row_is_classified_as_a_duplicate(
    connection: RawConnection,
) -> None:
    insert = "INSERT INTO stream VALUES (1, 'ours', 0, 0)"
    assert await run_and_classify(connection, insert) == ["is_duplicate"]


@pytest.mark.proves("I20")
def test_lock_wait_timeout_is_an_outage_and_not_a_refusal() -> None:
    error = to_store_error(MySQLError(1205, "Lock wait timeout exceeded"))
    assert isinstance(error, DatabaseUnavailable)
    assert "Lock wait timeout" in str(error)
    assert isinstance(to_store_error(MySQLError(1062, "Duplicate entry")), StoreFailed)


@pytest.mark.proves("R4.6")
async def test_invalid_statement_has_no_classification(connection: RawConnection) -> None:
    assert await run_and_classify(connection, "SELECT * FROM nowhere") == []


@pytest.mark.proves("R4.6")
async def test_locked_row_is_a_conflict(
    node: Node, connection: RawConnection, backend: str
) -> None:
    patience = {
        "postgres": "SET lock_timeout = '50ms'",
        "mariadb": "SET innodb_lock_wait_timeout = 0",
    }
    await run(connection, patience[backend])
    async with open_connection(make_connector(node)) as second:
        await start(second, "UPDATE stream SET seq = 1")
        meanings = await run_and_classify(connection, "UPDATE stream SET seq = 2")
    assert meanings == ["is_serialization_conflict"]


@pytest.mark.proves("R4.6")
async def test_deadlock_is_reported_as_a_conflict_to_only_one_of_two_transactions(
    node: Node, connection: RawConnection
) -> None:
    node.execute("INSERT INTO stream VALUES (2, 'ours', 0, 0)")
    change = "UPDATE stream SET seq = seq + 1 WHERE id = {}"
    async with open_connection(make_connector(node)) as second:
        await start(connection, change.format(1))
        await start(second, change.format(2))
        results = await asyncio.gather(
            run(connection, change.format(2)),
            run(second, change.format(1)),
            return_exceptions=True,
        )
    errors = [result for result in results if result is not None]
    assert [list_meanings(error) for error in errors] == [["is_serialization_conflict"]]


@pytest.mark.proves("I21")
async def test_read_only_session_is_recognized(connection: RawConnection, backend: str) -> None:
    demote = {
        "postgres": "SET default_transaction_read_only = on",
        "mariadb": "SET SESSION TRANSACTION READ ONLY",
    }
    await run(connection, demote[backend])
    assert await run_and_classify(connection, "UPDATE stream SET seq = 1") == ["is_read_only"]


@pytest.mark.proves("I21")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_read_only_server_is_recognized(
    connection: RawConnection, mariadb_server: MariaDBServer
) -> None:
    mariadb_server.set_read_only(True)
    try:
        assert await run_and_classify(connection, "UPDATE stream SET seq = 1") == ["is_read_only"]
    finally:
        mariadb_server.set_read_only(False)


@pytest.mark.proves("R4.6")
async def test_closed_connection_is_recognized_by_the_first_and_later_statements(
    connection: RawConnection, backend: str
) -> None:
    end = {
        "postgres": "SELECT pg_terminate_backend(pg_backend_pid())",
        "mariadb": "KILL CONNECTION_ID()",
    }
    assert await run_and_classify(connection, end[backend]) == ["is_disconnect"]
    for _ in range(2):
        assert await run_and_classify(connection, "SELECT 1") == ["is_disconnect"]


@pytest.mark.proves("R4.6")
@pytest.mark.parametrize("backend", ["postgres"])
@pytest.mark.parametrize("turn_count", range(5))
async def test_termination_message_read_before_the_end_of_stream_is_a_lost_connection(
    node: Node, connection: RawConnection, turn_count: int
) -> None:
    """A process that was paused receives both, and reads them in different turns of the loop."""
    (pid,) = await connection.fetchrow("SELECT pg_backend_pid()")
    node.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
    for _ in range(turn_count):
        await asyncio.sleep(0)
    assert await run_and_classify(connection, "SELECT 1") == ["is_disconnect"]


@pytest.mark.proves("R4.6")
@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(),
        ConnectionError("unexpected connection_lost() call"),
        OSError(errno.EHOSTUNREACH, "no route to host"),
        DatabaseUnavailable({"a": "is a standby"}),
        DBAPIError("SELECT 1", None, Exception("odd"), connection_invalidated=True),
    ],
)
def test_network_error_is_classified_as_a_lost_connection(error: Exception) -> None:
    assert list_meanings(error) == ["is_disconnect"]


@pytest.mark.proves("R4.6")
def test_timeout_error_is_not_classified_as_a_lost_connection() -> None:
    assert list_meanings(TimeoutError()) == []


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """Yield two connections to one file."""
    path = str(tmp_path / "headway.db")
    first, second = (open_sqlite(path, durability="process") for _ in range(2))
    first.execute("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
    first.execute("INSERT INTO fruit VALUES (1, 'fig')")
    yield first, second
    first.close()
    second.close()


@pytest.mark.proves("R4.6")
@pytest.mark.backend("sqlite")
@pytest.mark.parametrize("row", ["(1, 'plum')", "(2, 'fig')"])
def test_sqlite_duplicate_is_recognized(
    files: tuple[sqlite3.Connection, sqlite3.Connection], row: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError) as failed:
        files[0].execute(f"INSERT INTO fruit VALUES {row}")  # noqa: S608
    assert list_meanings(failed.value) == ["is_duplicate"]


@pytest.mark.proves("R4.6")
@pytest.mark.backend("sqlite")
def test_sqlite_conflict_is_recognized(
    files: tuple[sqlite3.Connection, sqlite3.Connection],
) -> None:
    first, second = files
    first.execute("BEGIN IMMEDIATE")
    second.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(sqlite3.OperationalError) as failed:
        second.execute("BEGIN IMMEDIATE")
    assert list_meanings(failed.value) == ["is_serialization_conflict"]
    first.execute("ROLLBACK")


@pytest.mark.proves("R4.6")
@pytest.mark.backend("sqlite")
def test_sqlite_write_based_on_an_outdated_snapshot_is_a_conflict(
    files: tuple[sqlite3.Connection, sqlite3.Connection],
) -> None:
    first, second = files
    second.execute("BEGIN")
    second.execute("SELECT * FROM fruit").fetchall()
    first.execute("INSERT INTO fruit VALUES (2, 'plum')")
    with pytest.raises(sqlite3.OperationalError) as failed:
        second.execute("INSERT INTO fruit VALUES (3, 'pear')")
    assert list_meanings(failed.value) == ["is_serialization_conflict"]
    second.execute("ROLLBACK")


@pytest.mark.proves("R4.6")
@pytest.mark.backend("sqlite")
def test_sqlite_read_only_file_is_recognized(
    files: tuple[sqlite3.Connection, sqlite3.Connection],
) -> None:
    files[0].execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError) as failed:
        files[0].execute("INSERT INTO fruit VALUES (2, 'plum')")
    assert list_meanings(failed.value) == ["is_read_only"]
