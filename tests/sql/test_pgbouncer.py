"""Headway works behind PgBouncer in session mode, and refuses other modes at start (R8.7)."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from headway import Headway
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.postgres import SESSION_SETTINGS, WRITE_SETTINGS, PostgresDriver
from headway.adapters.sql.connect.server_check import Purpose
from headway.adapters.sql.sql_store import open_store
from headway.core.errors import ConfigurationError
from headway.core.run.status import RunStatus
from headway.ports.store import EventOrigin
from headway.services.context.run_context import RunContext
from headway.testing import a_submit
from tests.contract.backends import open_database
from tests.contract.scenes import read_status
from tests.servers import Missing, PgBouncer, PostgresServer, start_pgbouncer
from tests.servers.pgbouncer import PoolMode

pytestmark = [pytest.mark.backend("postgres"), pytest.mark.proves("R8.7")]

BOUND_S = 30.0
IGNORED = "ignore_startup_parameters = " + ", ".join(SESSION_SETTINGS | WRITE_SETTINGS)
MakePooler = Callable[..., PgBouncer]


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    with open_database(postgres_server) as name:
        yield name


@pytest.fixture
def a_pooler(
    request: pytest.FixtureRequest, postgres_server: PostgresServer
) -> Iterator[MakePooler]:
    started: list[PgBouncer] = []

    def start(mode: PoolMode, *, more: str = "") -> PgBouncer:
        try:
            started.append(start_pgbouncer(postgres_server, mode, more=more))
        except Missing as reason:
            if request.config.getoption("--require-services"):
                pytest.fail(str(reason), pytrace=False)
            pytest.skip(str(reason))
        return started[-1]

    yield start
    for pooler in started:
        pooler.stop()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize(
    "more",
    ["", IGNORED, f"{IGNORED}\nserver_round_robin = 1"],
    ids=["plain", "ignoring", "in turn"],
)
async def test_pooler_that_shares_sessions_is_refused_at_start_in_one_sentence(
    a_pooler: MakePooler, database: str, mode: PoolMode, more: str
) -> None:
    url = a_pooler(mode, more=more).url(database)
    for _ in range(3):  # Later connections get sessions that were used before.
        with pytest.raises(ConfigurationError) as refused:
            await open_store([url])
        sentence = str(refused.value)
        assert sentence.startswith(f"{url} is a connection pooler in transaction mode")
        assert "set pool_mode = session" in sentence
        assert "\n" not in sentence


async def test_transaction_mode_is_detected_while_other_clients_use_the_pooler(
    a_pooler: MakePooler, database: str
) -> None:
    """Many sessions are free, and the pooler lends them to other clients."""
    (address,) = parse_addresses([a_pooler("transaction", more=IGNORED).url(database)])

    async def open_one() -> str:
        with pytest.raises(ConfigurationError) as refused:
            await PostgresDriver().open(address, Purpose.READ)
        return str(refused.value)

    async with asyncio.timeout(BOUND_S):
        sentences = await asyncio.gather(*(open_one() for _ in range(10)))
    assert len(set(sentences)) == 1


@pytest.mark.parametrize("more", ["", IGNORED], ids=["plain", "ignoring"])
async def test_session_settings_hold_behind_a_pooler_in_session_mode(
    a_pooler: MakePooler, database: str, more: str
) -> None:
    (address,) = parse_addresses([a_pooler("session", more=more).url(database)])
    connection = await PostgresDriver().open(address, Purpose.WRITE)
    try:
        for name, value in (SESSION_SETTINGS | WRITE_SETTINGS).items():
            assert await connection.fetchval(f"SHOW {name}") == value
    finally:
        await connection.close()


@pytest.mark.parametrize("more", ["", IGNORED], ids=["plain", "ignoring"])
async def test_runs_are_executed_behind_a_pooler_in_session_mode(
    a_pooler: MakePooler, database: str, more: str
) -> None:
    hw = Headway(a_pooler("session", more=more).url(database))

    @hw.job
    async def double(ctx: RunContext, number: int) -> int:
        await ctx.progress(number=number)
        return 2 * number

    async with asyncio.timeout(BOUND_S), hw:
        handles = [await hw.submit("double", params={"number": number}) for number in range(20)]
        assert [await handle.result() for handle in handles] == [2 * n for n in range(20)]


async def test_hints_arrive_behind_a_pooler_in_session_mode(
    a_pooler: MakePooler, database: str
) -> None:
    url = a_pooler("session").url(database)
    writer, listener = await open_store([url]), await open_store([url])
    try:
        is_notified = asyncio.Event()
        stop = listener.listen(lambda _: is_notified.set(), origin=EventOrigin.OTHERS)
        async with asyncio.timeout(BOUND_S):
            number = 0
            while not is_notified.is_set():  # The listener receives nothing until it has connected.
                await writer.apply(a_submit(f"key-{number}"))
                number += 1
                await asyncio.sleep(0)
        stop()
    finally:
        await writer.close()
        await listener.close()


async def test_server_without_a_pooler_is_accepted(
    postgres_server: PostgresServer, database: str
) -> None:
    store = await open_store([postgres_server.url(database)])
    try:
        command = a_submit()
        await store.apply(command)
        assert await read_status(store, command.run_id) is RunStatus.QUEUED
    finally:
        await store.close()
