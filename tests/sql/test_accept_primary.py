"""Servers refuse a primary that lacks commits, with a remedy, until it is accepted (I21)."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headway import Headway
from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.lineage import LOST_COMMITS, OLD_PRIMARY
from headway.adapters.sql.connect.server_check import Purpose
from headway.api.http.problem import to_problem
from headway.api.routes import health
from headway.bootstrap import accept_primary
from headway.core.errors import ConfigurationError, DatabaseBehind, SchemaMismatch
from headway.services.context.run_context import RunContext
from tests.api.client import Client
from tests.api.conftest import served_in_this_loop
from tests.cli.command import headway
from tests.contract.backends import run_in_thread, upgrade
from tests.servers import PostgresPair
from tests.servers.process import wait_until
from tests.sql.nodes import (
    Node,
    PostgresNode,
    make_connector,
    make_stream,
    open_connection,
    read_database_name,
    read_epoch,
)

pytestmark = pytest.mark.proves("I21")

BOUND_S = 60.0
MakeNode = Callable[[], Node]


async def read_reasons(connector: Connector) -> list[str]:
    with pytest.raises(DatabaseBehind) as refused:
        await connector.connect(Purpose.WRITE)
    return list(refused.value.reasons.values())


async def test_accepted_primary_is_used_by_running_processes_after_two_failovers(
    a_node: MakeNode,
) -> None:
    first, second = a_node(), a_node()
    make_stream(first, seq=50)
    second.leave()
    running = [make_connector(first, second) for _ in range(2)]
    for connector in running:
        assert await read_database_name(connector) == first.database
    first.leave()
    second.come_back()
    make_stream(second, seq=50)
    for connector in running:
        assert await read_database_name(connector) == second.database
    second.leave()
    first.come_back()  # Without the epoch that was raised on the second.
    for connector in running:
        assert OLD_PRIMARY in await read_reasons(connector)

    accepted = await accept_primary([first.url, second.url])
    assert (accepted.epoch, accepted.seq) == (read_epoch(first), 50)
    for connector in running:
        assert await read_database_name(connector) == first.database

    second.come_back()
    for connector in (*running, make_connector(first, second)):
        connector.note_disconnect()
        assert await read_database_name(connector) == first.database
    assert read_epoch(second) == 1


async def test_accepted_backup_is_used_by_running_processes(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node, seq=50)
    connector = make_connector(node)
    async with open_connection(connector, Purpose.WRITE) as connection:
        connector.note_commit(60, epoch=0, connection=connection)
    assert await read_reasons(connector) == [LOST_COMMITS]
    await accept_primary([node.url])
    assert await read_database_name(connector) == node.database


async def test_each_accepted_primary_gets_a_higher_epoch(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node, seq=50)
    epochs = [(await accept_primary([node.url])).epoch for _ in range(3)]
    assert epochs == sorted(set(epochs))


async def test_accept_primary_is_refused_while_several_nodes_accept_writes(
    a_node: MakeNode,
) -> None:
    first, second = a_node(), a_node()
    make_stream(first)
    make_stream(second)
    with pytest.raises(ConfigurationError, match="several addresses accept writes"):
        await accept_primary([first.url, second.url])
    assert (read_epoch(first), read_epoch(second)) == (0, 0)


async def test_database_without_the_schema_is_not_accepted(a_node: MakeNode) -> None:
    with pytest.raises(SchemaMismatch, match="no headway schema"):
        await accept_primary([a_node().url])


async def test_accept_primary_is_refused_for_sqlite(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no failover"):
        await accept_primary([f"sqlite:///{tmp_path}/headway.db"])


def test_clients_receive_the_remedy_without_addresses() -> None:
    problem = to_problem(DatabaseBehind({"postgresql://db-1/headway": OLD_PRIMARY}))
    assert (problem.status_code, problem.code) == (503, "database_behind")
    assert "headway db accept-primary" in problem.detail
    assert "db-1" not in problem.detail


@pytest.fixture
def pair_urls(postgres_pair: PostgresPair) -> Iterator[list[str]]:
    """A database with the schema, on both servers."""
    name = f"twice_{uuid4().hex[:12]}"
    first = PostgresNode(postgres_pair.primary, name)
    first.create()
    run_in_thread(lambda: upgrade(first.url))
    written = first.execute("SELECT pg_current_wal_lsn()::text")
    replayed = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
    wait_until(
        lambda: postgres_pair.standby.execute(replayed) == "True",
        what="the standby has the database",
        timeout_s=10,
    )
    yield postgres_pair.urls(name)
    postgres_pair.standby.kill()  # Whatever it contains, it becomes the standby of the first again.
    postgres_pair.standby.follow(postgres_pair.primary)
    wait_for_standby(postgres_pair)
    first.drop()


def wait_for_standby(pair: PostgresPair) -> None:
    query = "SELECT count(*) FROM pg_stat_replication"
    wait_until(lambda: pair.primary.execute(query) == "1", what="the standby follows", timeout_s=10)


async def wait_for_answer(client: Client, path: str, code: str | None) -> str:
    """Repeat until the answer has this code (None: a success), and return its detail."""
    async with asyncio.timeout(BOUND_S):
        while True:
            answer = await client.get(path)
            if (answer.status == 200) == (code is None) and answer.body.get("code") == code:
                return str(answer.body.get("detail"))
            await asyncio.sleep(0.1)


@pytest.mark.backend("postgres")
async def test_server_follows_an_accepted_primary_after_a_double_failover_without_a_restart(
    postgres_pair: PostgresPair, pair_urls: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "READY_S_MAX", BOUND_S)
    hw = Headway(*pair_urls, stop_wait_s=0)

    @hw.job
    async def echo(ctx: RunContext, text: str) -> str:
        return text

    async with hw, served_in_this_loop(hw) as address, Client(address, hw) as client:
        assert await (await hw.submit("echo", params={"text": "on the first"})).result()
        postgres_pair.primary.kill()
        postgres_pair.promote()
        await wait_for_answer(client, "/readyz", None)
        lost = await hw.submit("echo", params={"text": "on the second"})
        assert await lost.result() == "on the second"

        postgres_pair.standby.kill()
        postgres_pair.primary.restart()  # It never received the epoch of the second.
        postgres_pair.primary.execute(
            "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"
        )
        detail = await wait_for_answer(client, "/readyz", "database_behind")
        assert "headway db accept-primary" in detail

        settings = {"HEADWAY_DATABASE_URLS": " ".join(pair_urls)}
        doctor = await asyncio.to_thread(headway, "doctor", folder=folder, **settings)
        assert doctor.code == 0
        ended = await asyncio.to_thread(headway, "db", "accept-primary", folder=folder, **settings)
        assert ended.code == 0
        assert ended.out.startswith(f"accepted {pair_urls[0]} as the primary")
        await wait_for_answer(client, "/readyz", None)
        again = await hw.submit("echo", params={"text": "on the first again"})
        assert await again.result() == "on the first again"
        assert (await client.get(f"/api/runs/{lost.id}")).status == 404


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
