"""Failover with real pairs of servers that are killed, promoted and restored (R4.4, I21)."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.lineage import OLD_PRIMARY
from headway.core.errors import DatabaseUnavailable
from tests.servers import MariaDBPair, PostgresPair
from tests.servers.process import wait_until
from tests.sql.nodes import MariaDBNode, Node, PostgresNode, make_stream, read_epoch


@asynccontextmanager
async def open_database(*nodes: Node) -> AsyncIterator[Database]:
    addresses = parse_addresses([node.url for node in nodes])
    database = Database(addresses, durability="process")
    try:
        yield database
    finally:
        await database.close()


async def read_port(database: Database) -> int:
    query = {"postgres": "SELECT inet_server_port()", "mysql": "SELECT @@port"}[database.driver]

    async def ask(connection: AsyncConnection) -> int:
        return int((await connection.execute(text(query))).scalar_one())

    return await database.read_with_retry(ask, sleep=_do_not_sleep)


async def _do_not_sleep(delay_s: float) -> None:
    pass


async def read_reasons(database: Database) -> list[str]:
    with pytest.raises(DatabaseUnavailable) as refused:
        await read_port(database)
    return list(refused.value.reasons.values())


@pytest.fixture
def postgres_nodes(postgres_pair: PostgresPair) -> Iterator[list[PostgresNode]]:
    """Yield a database that the second server replicates, as it was after 50 commits."""
    name = f"node_{uuid4().hex[:12]}"
    first = PostgresNode(postgres_pair.primary, name)
    first.create()
    make_stream(first, seq=50)
    written = first.execute("SELECT pg_current_wal_lsn()::text")
    replayed = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
    wait_until(
        lambda: postgres_pair.standby.execute(replayed) == "True",
        what="the standby has the database",
        timeout_s=10,
    )
    yield [first, PostgresNode(postgres_pair.standby, name)]
    first.drop()


@pytest.fixture
def mariadb_nodes(mariadb_pair: MariaDBPair) -> Iterator[list[MariaDBNode]]:
    """Yield the same state on two servers, the second of which is read-only."""
    name = f"node_{uuid4().hex[:12]}"
    servers = (mariadb_pair.primary, mariadb_pair.standby)
    nodes = [MariaDBNode(server, name) for server in servers]
    for node in nodes:
        node.create()
        make_stream(node, seq=50)
    yield nodes
    for node in nodes:
        node.drop()


@pytest.mark.proves("R4.4")
@pytest.mark.backend("postgres")
async def test_standby_is_skipped_even_if_its_address_comes_first(
    postgres_nodes: list[PostgresNode],
) -> None:
    primary, standby = postgres_nodes
    async with open_database(standby, primary) as database:
        assert await read_port(database) == primary.server.port
    async with open_database(standby) as database:
        assert await read_reasons(database) == ["is a standby"]


@pytest.mark.proves("R4.4")
@pytest.mark.backend("mariadb")
async def test_read_only_node_is_skipped_even_if_its_address_comes_first(
    mariadb_nodes: list[MariaDBNode],
) -> None:
    primary, standby = mariadb_nodes
    async with open_database(standby, primary) as database:
        assert await read_port(database) == primary.server.port
    async with open_database(standby) as database:
        assert await read_reasons(database) == ["is read-only (read_only)"]


@pytest.mark.proves("I21")
@pytest.mark.backend("postgres")
async def test_old_primary_is_refused_after_a_failover(
    postgres_pair: PostgresPair, postgres_nodes: list[PostgresNode]
) -> None:
    first, second = postgres_nodes
    async with open_database(first, second) as database:
        assert await read_port(database) == first.server.port
        postgres_pair.primary.kill()
        try:
            dead, standby = await read_reasons(database)
            assert "onnect" in dead
            assert standby == "is a standby"

            postgres_pair.promote()
            assert await read_port(database) == second.server.port
            assert read_epoch(second) == 1

            postgres_pair.primary.restart()
            assert await read_port(database) == second.server.port
            async with open_database(first, second) as new_process:
                assert await read_port(new_process) == second.server.port

            postgres_pair.standby.kill()
            behind, dead = await read_reasons(database)
            assert behind == OLD_PRIMARY
            assert "onnect" in dead
        finally:
            postgres_pair.standby.restart()
            postgres_pair.rejoin()
            postgres_pair.fail_back()
        assert await read_port(database) == first.server.port
        assert read_epoch(first) == 2


@pytest.mark.proves("I21")
@pytest.mark.backend("mariadb")
async def test_pooled_connection_to_the_old_primary_is_not_used_again(
    mariadb_pair: MariaDBPair, mariadb_nodes: list[MariaDBNode]
) -> None:
    first, second = mariadb_nodes
    async with open_database(first, second) as database:
        assert database.connector is not None
        assert await read_port(database) == first.server.port
        mariadb_pair.promote()  # The connection in the pool still works.
        try:
            database.connector.note_disconnect()
            async with database.open_session(), database.open_session():
                pass
            async with database.open_session() as one, database.open_session() as another:
                for connection in (one, another):
                    port = (await connection.execute(text("SELECT @@port"))).scalar_one()
                    assert port == second.server.port
        finally:
            mariadb_pair.fail_back()
        assert (read_epoch(first), read_epoch(second)) == (0, 1)


@pytest.mark.proves("I21")
async def test_all_nodes_are_checked_after_a_pooled_connection_broke(
    a_node: Callable[[], Node], backend: str
) -> None:
    home, other = a_node(), a_node()
    make_stream(home)
    own_id, end, where = {
        "postgres": (
            "SELECT pg_backend_pid()",
            "SELECT pg_terminate_backend({})",
            "SELECT current_database()",
        ),
        "mariadb": ("SELECT connection_id()", "KILL {}", "SELECT database()"),
    }[backend]
    async with open_database(home, other) as database:
        async with database.open_session() as connection:
            session_id = (await connection.execute(text(own_id))).scalar_one()
        make_stream(other, epoch=1)  # Other processes saw a failover, and this one did not.
        home.execute(end.format(session_id))
        async with database.open_session() as connection:
            assert (await connection.execute(text(where))).scalar_one() == other.database


@pytest.mark.proves("I21")
@pytest.mark.backend("mariadb")
async def test_old_primary_is_refused_although_it_is_writable_again(
    mariadb_pair: MariaDBPair, mariadb_nodes: list[MariaDBNode]
) -> None:
    first, second = mariadb_nodes
    async with open_database(first, second) as database:
        assert database.connector is not None
        assert await read_port(database) == first.server.port
        mariadb_pair.promote()
        try:
            database.connector.note_disconnect()
            async with database.open_session(), database.open_session():
                pass
        finally:
            mariadb_pair.fail_back()
        await database.engine.dispose()
        behind, standby = await read_reasons(database)
        assert behind == OLD_PRIMARY
        assert standby == "is read-only (read_only)"
