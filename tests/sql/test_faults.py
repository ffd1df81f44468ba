"""What the drivers' own errors mean, provoked by raw connections to real databases."""

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
from tests.sql.nodes import Node, connected, connector_to, make_stream, run, start


def meanings_of(error: BaseException) -> list[str]:
    kinds = (is_disconnect, is_duplicate, is_read_only, is_serialization_conflict)
    return [kind.__name__ for kind in kinds if kind(error)]


async def meanings(connection: RawConnection, statement: str) -> list[str]:
    with pytest.raises(Exception) as failed:  # noqa: PT011  (which one it is, is the question)
        await run(connection, statement)
    return meanings_of(failed.value)


@pytest.fixture
def node(a_node: Callable[[], Node]) -> Node:
    made = a_node()
    make_stream(made)
    return made


@pytest.fixture
async def connection(node: Node) -> AsyncIterator[RawConnection]:
    async with connected(connector_to(node), Purpose.WRITE) as connection:
        yield connection


@pytest.mark.proves("R4.6")
async def test_a_row_that_is_there_already_is_a_duplicate(connection: RawConnection) -> None:
    insert = "INSERT INTO stream VALUES (1, 'ours', 0, 0)"
    assert await meanings(connection, insert) == ["is_duplicate"]


@pytest.mark.proves("I20")
def test_a_lock_that_nobody_lets_go_of_is_an_outage_and_not_a_refusal() -> None:
    told = to_store_error(MySQLError(1205, "Lock wait timeout exceeded"))
    assert isinstance(told, DatabaseUnavailable)
    assert "Lock wait timeout" in str(told)
    assert isinstance(to_store_error(MySQLError(1062, "Duplicate entry")), StoreFailed)


@pytest.mark.proves("R4.6")
async def test_a_wrong_statement_means_nothing_of_this(connection: RawConnection) -> None:
    assert await meanings(connection, "SELECT * FROM nowhere") == []


@pytest.mark.proves("R4.6")
async def test_a_row_that_others_hold_is_a_conflict(
    node: Node, connection: RawConnection, backend: str
) -> None:
    patience = {
        "postgres": "SET lock_timeout = '50ms'",
        "mariadb": "SET innodb_lock_wait_timeout = 0",
    }
    await run(connection, patience[backend])
    async with connected(connector_to(node)) as other:
        await start(other, "UPDATE stream SET seq = 1")
        found = await meanings(connection, "UPDATE stream SET seq = 2")
    assert found == ["is_serialization_conflict"]


@pytest.mark.proves("R4.6")
async def test_a_deadlock_is_a_conflict_for_one(node: Node, connection: RawConnection) -> None:
    node.execute("INSERT INTO stream VALUES (2, 'ours', 0, 0)")
    change = "UPDATE stream SET seq = seq + 1 WHERE id = {}"
    async with connected(connector_to(node)) as other:
        await start(connection, change.format(1))
        await start(other, change.format(2))
        results = await asyncio.gather(
            run(connection, change.format(2)),
            run(other, change.format(1)),
            return_exceptions=True,
        )
    errors = [result for result in results if result is not None]
    assert [meanings_of(error) for error in errors] == [["is_serialization_conflict"]]


@pytest.mark.proves("I21")
async def test_a_node_that_stopped_taking_writes_says_so(
    connection: RawConnection, backend: str
) -> None:
    demote = {
        "postgres": "SET default_transaction_read_only = on",
        "mariadb": "SET SESSION TRANSACTION READ ONLY",
    }
    await run(connection, demote[backend])
    assert await meanings(connection, "UPDATE stream SET seq = 1") == ["is_read_only"]


@pytest.mark.proves("I21")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_a_server_that_was_made_read_only_says_so(
    connection: RawConnection, mariadb_server: MariaDBServer
) -> None:
    mariadb_server.set_read_only(True)
    try:
        assert await meanings(connection, "UPDATE stream SET seq = 1") == ["is_read_only"]
    finally:
        mariadb_server.set_read_only(False)


@pytest.mark.proves("R4.6")
async def test_a_connection_that_was_ended_is_gone_at_once_and_afterwards(
    connection: RawConnection, backend: str
) -> None:
    end = {
        "postgres": "SELECT pg_terminate_backend(pg_backend_pid())",
        "mariadb": "KILL CONNECTION_ID()",
    }
    assert await meanings(connection, end[backend]) == ["is_disconnect"]
    for _ in range(2):
        assert await meanings(connection, "SELECT 1") == ["is_disconnect"]


@pytest.mark.proves("R4.6")
@pytest.mark.parametrize("backend", ["postgres"])
@pytest.mark.parametrize("turn_count", range(5))
async def test_a_goodbye_that_was_read_before_the_end_of_the_line_is_its_end(
    node: Node, connection: RawConnection, turn_count: int
) -> None:
    """A process that was paused finds both, and reads the one some turns before the other."""
    (pid,) = await connection.fetchrow("SELECT pg_backend_pid()")
    node.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
    for _ in range(turn_count):
        await asyncio.sleep(0)
    assert await meanings(connection, "SELECT 1") == ["is_disconnect"]


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
def test_a_broken_network_is_a_lost_connection(error: Exception) -> None:
    assert meanings_of(error) == ["is_disconnect"]


@pytest.mark.proves("R4.6")
def test_a_limit_that_ran_out_is_not_a_lost_connection() -> None:
    assert meanings_of(TimeoutError()) == []


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """Two connections to one file."""
    path = str(tmp_path / "headway.db")
    one, other = (open_sqlite(path, durability="process") for _ in range(2))
    one.execute("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
    one.execute("INSERT INTO fruit VALUES (1, 'fig')")
    yield one, other
    one.close()
    other.close()


@pytest.mark.proves("R4.6")
@pytest.mark.backend("sqlite")
@pytest.mark.parametrize("row", ["(1, 'plum')", "(2, 'fig')"])
def test_sqlite_tells_a_duplicate(
    files: tuple[sqlite3.Connection, sqlite3.Connection], row: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError) as failed:
        files[0].execute(f"INSERT INTO fruit VALUES {row}")  # noqa: S608
    assert meanings_of(failed.value) == ["is_duplicate"]


@pytest.mark.proves("R4.6")
@pytest.mark.backend("sqlite")
def test_sqlite_tells_a_conflict(
    files: tuple[sqlite3.Connection, sqlite3.Connection],
) -> None:
    one, other = files
    one.execute("BEGIN IMMEDIATE")
    other.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(sqlite3.OperationalError) as failed:
        other.execute("BEGIN IMMEDIATE")
    assert meanings_of(failed.value) == ["is_serialization_conflict"]
    one.execute("ROLLBACK")


@pytest.mark.proves("R4.6")
@pytest.mark.backend("sqlite")
def test_sqlite_tells_a_conflict_of_snapshots(
    files: tuple[sqlite3.Connection, sqlite3.Connection],
) -> None:
    one, other = files
    other.execute("BEGIN")
    other.execute("SELECT * FROM fruit").fetchall()
    one.execute("INSERT INTO fruit VALUES (2, 'plum')")
    with pytest.raises(sqlite3.OperationalError) as failed:
        other.execute("INSERT INTO fruit VALUES (3, 'pear')")
    assert meanings_of(failed.value) == ["is_serialization_conflict"]
    other.execute("ROLLBACK")


@pytest.mark.proves("R4.6")
@pytest.mark.backend("sqlite")
def test_sqlite_tells_that_it_may_not_write(
    files: tuple[sqlite3.Connection, sqlite3.Connection],
) -> None:
    files[0].execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError) as failed:
        files[0].execute("INSERT INTO fruit VALUES (2, 'plum')")
    assert meanings_of(failed.value) == ["is_read_only"]
