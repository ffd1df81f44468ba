"""Too much for now, or something away: 429 or 503, and when to come again (I20)."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from headway.adapters.sql.connect import database
from headway.adapters.sql.write import command_queue as waiting
from headway.adapters.sql.write import writer
from headway.api.routes import event_routes as events
from headway.core.command.run import inbox
from tests.api.client import Answer, Client
from tests.api.conftest import served
from tests.contract.backends import database_on
from tests.servers import PostgresServer

SSE = {"accept": "text/event-stream"}
BOUND_S = 30.0


def refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer["code"]) == (status, code), answer
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_a_full_lane_is_told(client: Client) -> None:
    await client.call("PATCH", "/api/lanes/main", {"paused": True, "max_queued": 1})
    await client.submitted("echo", key="ann")
    answer = await client.post("/api/runs", {"job": "echo", "key": "bob"})
    refused(answer, 429, "lane_full")
    assert answer["lane"] == "main"
    assert [run["key"] for run in (await client.get("/api/runs"))["runs"]] == ["ann"]


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_a_full_inbox_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "UNREAD_COUNT_MAX", 2)
    run_id = await client.submitted("stay")
    await client.begun(run_id)
    path = f"/api/runs/{run_id}/messages"
    later = {"content": "hello", "deliver": "when_listening"}
    for _ in range(2):
        assert (await client.post(path, later)).status == 202
    answer = await client.post(path, later)
    refused(answer, 429, "inbox_full")
    assert answer["run_id"] == run_id


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_so_are_more_writes_than_can_wait(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "QUEUED_COUNT_MAX", 0)
    refused(await client.post("/api/runs", {"job": "echo"}), 503, "unavailable")
    monkeypatch.undo()
    assert (await client.get("/api/runs"))["runs"] == []


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_so_are_more_streams_than_there_may_be(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "STREAM_COUNT_MAX", 1)
    async with client.streamed("/api/events"):
        refused(await client.get("/api/events", **SSE), 503, "unavailable")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is believed soon."""
    monkeypatch.setattr(database, "RETRY_DELAYS_S", (0.05, 0.05, 0.05))
    monkeypatch.setattr(writer, "OUTAGE_S_MAX", 0.5)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    with database_on(postgres_server) as name:
        yield postgres_server.url(name)


@pytest.fixture
async def on_postgres(quick: None, postgres_url: str) -> AsyncIterator[Client]:
    async with served(postgres_url) as client:
        yield client


@pytest.mark.proves("I20")
@pytest.mark.backend("postgres")
async def test_a_database_that_is_away_is_told_whatever_is_asked(
    on_postgres: Client, postgres_server: PostgresServer
) -> None:
    client = on_postgres
    run_id = await client.submitted("echo")
    await client.ended(run_id)
    postgres_server.kill()
    try:
        refused(await client.get("/api/runs"), 503, "unavailable")
        refused(await client.get("/api/state"), 503, "unavailable")
        refused(await client.get(f"/api/runs/{run_id}/events", **SSE), 503, "unavailable")
        refused(await client.get("/metrics"), 503, "unavailable")
        refused(await client.post("/api/runs", {"job": "echo"}), 503, "unavailable")
        refused(await client.call("PATCH", "/api/lanes/main", {"paused": True}), 503, "unavailable")
        refused(await client.get("/readyz"), 503, "unavailable")
        assert (await client.get("/healthz")).status == 200
    finally:
        postgres_server.restart()
    async with asyncio.timeout(BOUND_S):
        while (await client.get("/readyz")).status != 200:
            pass
    assert (await client.get("/api/runs")).status == 200
    assert len((await client.get("/api/runs"))["runs"]) == 1


@pytest.mark.proves("I20")
@pytest.mark.backend("postgres")
async def test_a_database_that_is_silent_makes_a_server_unready_and_not_silent(
    on_postgres: Client, postgres_server: PostgresServer
) -> None:
    assert (await on_postgres.get("/readyz")).status == 200
    postgres_server.pause()
    try:
        async with asyncio.timeout(BOUND_S):
            while (answer := await on_postgres.get("/readyz")).status == 200:
                pass  # It was asked a moment ago, and is not asked again at once.
        refused(answer, 503, "unavailable")
    finally:
        postgres_server.resume()


@pytest.mark.proves("I20")
@pytest.mark.backend("postgres")
async def test_a_database_that_only_reads_is_not_ready(
    on_postgres: Client, postgres_server: PostgresServer
) -> None:
    """What an old primary becomes: everything can be seen, and nothing done."""
    may_write = "SET default_transaction_read_only = off"
    postgres_server.execute(
        may_write,
        "ALTER SYSTEM SET default_transaction_read_only = on",
        "SELECT pg_reload_conf()",
    )
    try:
        async with asyncio.timeout(BOUND_S):
            while (answer := await on_postgres.get("/readyz")).status == 200:
                pass
        refused(answer, 503, "unavailable")
    finally:
        postgres_server.execute(
            may_write,
            "ALTER SYSTEM RESET default_transaction_read_only",
            "SELECT pg_reload_conf()",
        )
    async with asyncio.timeout(BOUND_S):
        while (await on_postgres.get("/readyz")).status != 200:
            pass
