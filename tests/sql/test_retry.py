"""Errors that are retried, how often, and errors that are not (R4.6)."""

import asyncio
from collections.abc import Callable

import asyncpg
import pytest
from sqlalchemy import AsyncAdaptedQueuePool, text
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.core.errors import DatabaseUnavailable
from tests.servers import PostgresServer
from tests.sql.nodes import Node

END_OWN_SESSION = {
    "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
    "mysql": "KILL CONNECTION_ID()",
}


class SleepRecorder:
    """Replaces `asyncio.sleep`, and records the delays."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.delays_s: list[float] = []
        self._then = then

    async def __call__(self, delay_s: float) -> None:
        self.delays_s.append(delay_s)
        self._then()


async def lose_connection(connection: AsyncConnection) -> None:
    await connection.execute(text(END_OWN_SESSION[connection.dialect.name]))
    await connection.execute(text("SELECT 1"))


@pytest.mark.proves("R4.6")
async def test_lost_connection_is_retried_four_times_in_new_sessions(
    database: Database,
) -> None:
    waits = SleepRecorder()
    sessions: list[AsyncConnection] = []

    async def read(connection: AsyncConnection) -> None:
        sessions.append(connection)
        await lose_connection(connection)

    with pytest.raises(DatabaseUnavailable) as lost:
        await database.read_with_retry(read, sleep=waits)
    assert isinstance(lost.value.__cause__, DBAPIError)
    assert lost.value.__cause__.connection_invalidated
    assert waits.delays_s == [1, 2, 4]
    assert len({id(session) for session in sessions}) == 4


@pytest.mark.proves("R4.6")
async def test_retry_ends_with_the_first_success(database: Database) -> None:
    waits = SleepRecorder()

    async def read(connection: AsyncConnection) -> str:
        if len(waits.delays_s) < 2:
            await lose_connection(connection)
        return "done"

    assert await database.read_with_retry(read, sleep=waits) == "done"
    assert waits.delays_s == [1, 2]


@pytest.mark.proves("R4.6")
async def test_address_that_does_not_answer_is_tried_four_times(silent_url: str) -> None:
    waits = SleepRecorder()
    database = Database(parse_addresses([silent_url]), durability="process")
    with pytest.raises(DatabaseUnavailable):
        await database.read_with_retry(lose_connection, sleep=waits)
    assert waits.delays_s == [1, 2, 4]
    await database.close()


@pytest.mark.proves("R4.6")
@pytest.mark.parametrize("backend", ["postgres"])
async def test_read_is_retried_after_the_server_was_killed_during_a_session(
    database: Database, postgres_server: PostgresServer
) -> None:
    waits = SleepRecorder(then=postgres_server.restart)
    failures: list[type[DBAPIError]] = []

    async def read(connection: AsyncConnection) -> int:
        raw = (await connection.get_raw_connection()).driver_connection
        assert isinstance(raw, asyncpg.Connection)
        if not waits.delays_s:
            closed = asyncio.Event()
            raw.add_termination_listener(lambda _: closed.set())
            postgres_server.kill()
            await closed.wait()
        try:
            return int((await connection.execute(text("SELECT 7"))).scalar_one())
        except DBAPIError as error:
            failures.append(type(error))
            raise

    assert await database.read_with_retry(read, sleep=waits) == 7
    assert failures == [
        InterfaceError
    ]  # It is not an OperationalError, but still a lost connection.
    assert waits.delays_s == [1]


@pytest.mark.proves("R4.6")
async def test_permanent_error_is_not_retried(database: Database) -> None:
    waits = SleepRecorder()

    async def read(connection: AsyncConnection) -> None:
        await connection.execute(text("SELECT * FROM nowhere"))

    with pytest.raises(DBAPIError):
        await database.read_with_retry(read, sleep=waits)
    assert waits.delays_s == []


@pytest.mark.proves("R4.6")
async def test_connection_error_raised_by_the_caller_is_not_retried(
    database: Database,
) -> None:
    waits = SleepRecorder()

    async def read(_: AsyncConnection) -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await database.read_with_retry(read, sleep=waits)
    assert waits.delays_s == []


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["postgres"])
async def test_statement_that_exceeds_the_time_limit_in_the_url_is_an_outage(url: str) -> None:
    waits = SleepRecorder()
    limited = f"{url}{'&' if '?' in url else '?'}command_timeout=0.2"
    database = Database(parse_addresses([limited]), durability="process")

    async def read(connection: AsyncConnection) -> None:
        await connection.execute(text("SELECT pg_sleep(60)"))

    with pytest.raises(DatabaseUnavailable, match="command_timeout"):
        await database.read_with_retry(read, sleep=waits)
    with pytest.raises(DatabaseUnavailable, match="command_timeout"):
        async with database.open_session() as session:
            await read(session)
    assert waits.delays_s == []
    await database.close()


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["postgres"])
async def test_statement_that_exceeds_the_time_limit_of_the_server_is_an_outage(
    database: Database,
) -> None:
    async def read(connection: AsyncConnection) -> None:
        await connection.execute(text("SET statement_timeout = 100"))
        await connection.execute(text("SELECT pg_sleep(60)"))

    with pytest.raises(DatabaseUnavailable, match="statement timeout"):
        await database.read_with_retry(read)


@pytest.mark.proves("I20")
async def test_exhausted_pool_is_an_outage(
    database: Database,
) -> None:
    pool = database.engine.pool
    assert isinstance(pool, AsyncAdaptedQueuePool)
    pool._timeout = 0.01

    async def read(connection: AsyncConnection) -> None:
        await asyncio.gather(*(database.read_with_retry(wait) for _ in range(20)))

    async def wait(connection: AsyncConnection) -> None:
        await asyncio.sleep(0.2)

    with pytest.raises(DatabaseUnavailable, match="all connections are in use"):
        await database.read_with_retry(read)


@pytest.mark.proves("R4.6")
@pytest.mark.parametrize("backend", ["postgres"])
@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InternalClientError("cannot switch to state 12; another operation is in progress"),
        asyncpg.InterfaceError("connection is closed"),
    ],
)
async def test_every_driver_error_for_a_lost_connection_is_recognized(
    database: Database, error: Exception
) -> None:
    """Most are wrapped by SQLAlchemy; errors raised outside of statements are not."""
    waits = SleepRecorder()

    async def read(connection: AsyncConnection) -> None:
        raise error

    with pytest.raises(DatabaseUnavailable):
        await database.read_with_retry(read, sleep=waits)
    assert waits.delays_s == [1, 2, 4]


async def make_table(database: Database) -> None:
    async with database.engine.begin() as connection:
        await connection.execute(text("CREATE TABLE fruit (id INTEGER PRIMARY KEY)"))


async def insert(connection: AsyncConnection) -> str:
    async with connection.begin():
        await connection.execute(text("INSERT INTO fruit VALUES (1)"))
    return "written"


@pytest.mark.proves("R4.6")
async def test_duplicate_in_a_retry_means_that_the_first_attempt_succeeded(
    database: Database,
) -> None:
    await make_table(database)
    waits = SleepRecorder()

    async def insert_and_lose_the_answer(connection: AsyncConnection) -> str:
        answer = await insert(connection)
        if not waits.delays_s:
            await lose_connection(connection)
        return answer

    assert await database.write_with_retry(insert_and_lose_the_answer, sleep=waits) is None
    assert waits.delays_s == [1]


@pytest.mark.proves("R4.6")
async def test_retry_makes_the_write_that_was_lost_with_its_connection(database: Database) -> None:
    await make_table(database)
    waits = SleepRecorder()

    async def lose_the_connection_and_insert(connection: AsyncConnection) -> str:
        if not waits.delays_s:
            await lose_connection(connection)
        return await insert(connection)

    written = await database.write_with_retry(lose_the_connection_and_insert, sleep=waits)
    assert written == "written"


@pytest.mark.proves("R4.6")
async def test_duplicate_in_the_first_attempt_is_raised_as_an_error(
    database: Database,
) -> None:
    await make_table(database)
    assert await database.write_with_retry(insert) == "written"
    with pytest.raises(IntegrityError):
        await database.write_with_retry(insert)


@pytest.mark.proves("R4.6")
async def test_duplicate_is_raised_if_the_earlier_attempt_had_no_connection(
    a_node: Callable[[], Node],
) -> None:
    node = a_node()
    database = Database(parse_addresses([node.url]), durability="process")
    await make_table(database)
    await database.write_with_retry(insert)
    await database.engine.dispose()
    node.leave()
    with pytest.raises(IntegrityError):
        await database.write_with_retry(insert, sleep=SleepRecorder(then=node.come_back))
    await database.close()
