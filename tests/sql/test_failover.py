"""R4.4, I21: the real thing, with pairs of servers that are killed, promoted and brought back."""

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
from tests.sql.nodes import MariaDBNode, Node, PostgresNode, epoch_of, make_stream


@asynccontextmanager
async def opened(*nodes: Node) -> AsyncIterator[Database]:
    addresses = parse_addresses([node.url for node in nodes])
    database = Database(addresses, durability="process")
    try:
        yield database
    finally:
        await database.close()


async def port_of(database: Database) -> int:
    query = {"postgres": "SELECT inet_server_port()", "mysql": "SELECT @@port"}[database.driver]

    async def ask(connection: AsyncConnection) -> int:
        return int((await connection.execute(text(query))).scalar_one())

    return await database.read_with_retry(ask, sleep=_at_once)


async def _at_once(delay_s: float) -> None:
    pass


async def reasons_of(database: Database) -> list[str]:
    with pytest.raises(DatabaseUnavailable) as refused:
        await port_of(database)
    return list(refused.value.reasons.values())


@pytest.fixture
def postgres_nodes(postgres_pair: PostgresPair) -> Iterator[list[PostgresNode]]:
    """A database that the second server has from the first, as it was after 50 commits."""
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
    """The same state on two servers, the second of which takes no writes."""
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
async def test_a_standby_is_skipped_wherever_it_stands(
    postgres_nodes: list[PostgresNode],
) -> None:
    primary, standby = postgres_nodes
    async with opened(standby, primary) as database:
        assert await port_of(database) == primary.server.port
    async with opened(standby) as database:
        assert await reasons_of(database) == ["is a standby"]


@pytest.mark.proves("R4.4")
@pytest.mark.backend("mariadb")
async def test_a_read_only_node_is_skipped_wherever_it_stands(
    mariadb_nodes: list[MariaDBNode],
) -> None:
    primary, standby = mariadb_nodes
    async with opened(standby, primary) as database:
        assert await port_of(database) == primary.server.port
    async with opened(standby) as database:
        assert await reasons_of(database) == ["is read-only (read_only)"]


@pytest.mark.proves("I21")
@pytest.mark.backend("postgres")
async def test_a_pair_fails_over_and_its_old_primary_is_refused(
    postgres_pair: PostgresPair, postgres_nodes: list[PostgresNode]
) -> None:
    first, second = postgres_nodes
    async with opened(first, second) as database:
        assert await port_of(database) == first.server.port
        postgres_pair.primary.kill()
        try:
            dead, standby = await reasons_of(database)
            assert "onnect" in dead
            assert standby == "is a standby"

            postgres_pair.promote()
            assert await port_of(database) == second.server.port
            assert epoch_of(second) == 1

            postgres_pair.primary.restart()
            assert await port_of(database) == second.server.port
            async with opened(first, second) as new_process:
                assert await port_of(new_process) == second.server.port

            postgres_pair.standby.kill()
            behind, dead = await reasons_of(database)
            assert behind == OLD_PRIMARY
            assert "onnect" in dead
        finally:
            postgres_pair.standby.restart()
            postgres_pair.rejoin()
            postgres_pair.fail_back()
        assert await port_of(database) == first.server.port
        assert epoch_of(first) == 2


@pytest.mark.proves("I21")
@pytest.mark.backend("mariadb")
async def test_a_pooled_connection_to_the_old_primary_is_not_used_again(
    mariadb_pair: MariaDBPair, mariadb_nodes: list[MariaDBNode]
) -> None:
    first, second = mariadb_nodes
    async with opened(first, second) as database:
        assert database.connector is not None
        assert await port_of(database) == first.server.port
        mariadb_pair.promote()  # The connection in the pool is as good as before.
        try:
            database.connector.note_disconnect()
            async with database.open_session(), database.open_session():
                pass
            async with database.open_session() as one, database.open_session() as other:
                for connection in (one, other):
                    port = (await connection.execute(text("SELECT @@port"))).scalar_one()
                    assert port == second.server.port
        finally:
            mariadb_pair.fail_back()
        assert (epoch_of(first), epoch_of(second)) == (0, 1)


@pytest.mark.proves("I21")
async def test_a_connection_that_broke_in_the_pool_makes_the_next_look_at_all(
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
    async with opened(home, other) as database:
        async with database.open_session() as connection:
            session_id = (await connection.execute(text(own_id))).scalar_one()
        make_stream(other, epoch=1)  # Others saw a failover, and this process did not.
        home.execute(end.format(session_id))
        async with database.open_session() as connection:
            assert (await connection.execute(text(where))).scalar_one() == other.database


@pytest.mark.proves("I21")
@pytest.mark.backend("mariadb")
async def test_a_primary_that_was_left_is_refused_although_it_takes_writes_again(
    mariadb_pair: MariaDBPair, mariadb_nodes: list[MariaDBNode]
) -> None:
    first, second = mariadb_nodes
    async with opened(first, second) as database:
        assert database.connector is not None
        assert await port_of(database) == first.server.port
        mariadb_pair.promote()
        try:
            database.connector.note_disconnect()
            async with database.open_session(), database.open_session():
                pass
        finally:
            mariadb_pair.fail_back()
        await database.engine.dispose()
        behind, standby = await reasons_of(database)
        assert behind == OLD_PRIMARY
        assert standby == "is read-only (read_only)"
