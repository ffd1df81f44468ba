"""Sessions, snapshots and the pool, on every backend (R4.1, R4.3, R4.7)."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import text

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.server_check import Purpose
from tests.servers import MariaDBServer, PostgresServer
from tests.sql.nodes import open_connection, run

FILES_AND_SERVERS = ["sqlite", "postgres", "mariadb"]
ALL = [*FILES_AND_SERVERS, "sqlite-memory"]
SERVERS = ["postgres", "mariadb"]


async def make_table(database: Database) -> None:
    async with database.engine.begin() as connection:
        await connection.execute(text("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT)"))
        await connection.execute(text("INSERT INTO fruit VALUES (1, 'fig')"))


async def count_fruit(database: Database) -> int:
    async with database.open_session() as connection:
        return int((await connection.execute(text("SELECT count(*) FROM fruit"))).scalar_one())


@pytest.mark.proves("R4.1")
@pytest.mark.parametrize("backend", ALL)
async def test_same_statements_run_on_every_driver(database: Database) -> None:
    await make_table(database)
    assert await count_fruit(database) == 1


@pytest.mark.proves("R4.7")
@pytest.mark.parametrize("backend", ALL)
async def test_session_commits_nothing_by_itself(database: Database) -> None:
    await make_table(database)
    async with database.open_session() as connection:
        await connection.execute(text("INSERT INTO fruit VALUES (2, 'plum')"))
    assert await count_fruit(database) == 1


@pytest.mark.proves("R4.7")
@pytest.mark.parametrize("backend", ALL)
async def test_session_keeps_committed_changes_when_it_raises(database: Database) -> None:
    await make_table(database)
    async with database.open_session() as connection:
        await connection.execute(text("INSERT INTO fruit VALUES (2, 'plum')"))
        await connection.commit()
    assert await count_fruit(database) == 2


@pytest.mark.proves("I13")
@pytest.mark.parametrize("backend", FILES_AND_SERVERS)
async def test_snapshot_sees_one_instant(database: Database) -> None:
    await make_table(database)
    count = text("SELECT count(*) FROM fruit")
    async with database.open_snapshot() as connection:
        assert (await connection.execute(count)).scalar_one() == 1
        async with database.engine.begin() as other:
            await other.execute(text("INSERT INTO fruit VALUES (2, 'plum')"))
        assert (await connection.execute(count)).scalar_one() == 1
    assert await count_fruit(database) == 2


@pytest.mark.proves("I13")
@pytest.mark.parametrize("backend", SERVERS)
async def test_session_after_a_snapshot_sees_new_rows(database: Database) -> None:
    await make_table(database)
    count = text("SELECT count(*) FROM fruit")
    async with database.open_snapshot() as connection:
        await connection.execute(count)
    async with database.open_session() as connection:
        assert (await connection.execute(count)).scalar_one() == 1
        await _insert_elsewhere(database)
        assert (await connection.execute(count)).scalar_one() == 2


async def _insert_elsewhere(database: Database) -> None:
    async with database.engine.begin() as other:
        await other.execute(text("INSERT INTO fruit VALUES (2, 'plum')"))


@pytest.mark.proves("R4.3")
@pytest.mark.parametrize("backend", SERVERS)
async def test_pool_keeps_five_connections_and_lends_fifteen(database: Database) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(15):
            await stack.enter_async_context(database.open_session())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), database.open_session():
                pass
    assert database.engine.pool.checkedin() == 5  # type: ignore[attr-defined]


@pytest.mark.proves("R4.3")
@pytest.mark.parametrize("backend", SERVERS)
async def test_pool_waits_thirty_seconds_and_renews_after_five_minutes(
    database: Database,
) -> None:
    pool = database.engine.pool
    assert pool.timeout() == 30  # type: ignore[attr-defined]
    assert pool._recycle == 300


@pytest.mark.proves("R4.3")
@pytest.mark.parametrize("backend", SERVERS)
async def test_broken_pooled_connection_is_not_used(database: Database, backend: str) -> None:
    async with database.open_session() as connection:
        query = {"postgres": "SELECT pg_backend_pid()", "mariadb": "SELECT connection_id()"}
        session_id = (await connection.execute(text(query[backend]))).scalar_one()
    assert database.connector is not None
    end = {
        "postgres": f"SELECT pg_terminate_backend({session_id})",
        "mariadb": f"KILL {session_id}",
    }
    async with open_connection(database.connector, Purpose.WRITE) as other:
        await run(other, end[backend])
    async with database.open_session() as connection:
        assert (await connection.execute(text(query[backend]))).scalar_one() != session_id


@pytest.mark.proves("R4.4")
@pytest.mark.parametrize("backend", SERVERS)
async def test_pooled_connections_use_utc(database: Database, backend: str) -> None:
    zone = {"postgres": "SHOW timezone", "mariadb": "SELECT @@time_zone"}[backend]
    async with database.open_session() as connection:
        assert (await connection.execute(text(zone))).scalar_one() in {"UTC", "+00:00"}


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_snapshot_leaves_autocommit_as_the_url_sets_it(url: str) -> None:
    database = Database(parse_addresses([f"{url}?autocommit=on"]), durability="process")
    for open_session in (database.open_session, database.open_snapshot, database.open_session):
        async with open_session() as connection:
            assert (await connection.execute(text("SELECT @@autocommit"))).scalar_one() == 1
    await database.close()


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", SERVERS)
async def test_closing_does_not_wait_for_a_server_that_does_not_answer(
    database: Database,
    backend: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{backend}_server")
    async with database.open_session() as connection:
        await connection.execute(text("SELECT 1"))
    server.pause()
    try:
        async with asyncio.timeout(5):
            await database.close()
        assert not caplog.records
    finally:
        server.resume()
