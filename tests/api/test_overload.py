"""Overload and outages are answered with 429 or 503 and a Retry-After header (I20)."""

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
from tests.contract.backends import open_database
from tests.servers import PostgresServer

SSE = {"accept": "text/event-stream"}
BOUND_S = 30.0


def assert_refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer["code"]) == (status, code), answer
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_full_lane_is_429(client: Client) -> None:
    await client.call("PATCH", "/api/lanes/main", {"paused": True, "max_queued": 1})
    await client.submit("echo", key="ann")
    answer = await client.post("/api/runs", {"job": "echo", "key": "bob"})
    assert_refused(answer, 429, "lane_full")
    assert answer["lane"] == "main"
    assert [run["key"] for run in (await client.get("/api/runs"))["runs"]] == ["ann"]


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_full_inbox_is_429(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "UNREAD_COUNT_MAX", 2)
    run_id = await client.submit("stay")
    await client.wait_until_running(run_id)
    path = f"/api/runs/{run_id}/messages"
    later = {"content": "hello", "deliver": "when_listening"}
    for _ in range(2):
        assert (await client.post(path, later)).status == 202
    answer = await client.post(path, later)
    assert_refused(answer, 429, "inbox_full")
    assert answer["run_id"] == run_id


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_full_write_queue_is_503(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "QUEUED_COUNT_MAX", 0)
    assert_refused(await client.post("/api/runs", {"job": "echo"}), 503, "unavailable")
    monkeypatch.undo()
    assert (await client.get("/api/runs"))["runs"] == []


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_stream_beyond_the_limit_is_503(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "STREAM_COUNT_MAX", 1)
    async with client.open_stream("/api/events"):
        assert_refused(await client.get("/api/events", **SSE), 503, "unavailable")


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the retries, so that an outage is reported soon."""
    monkeypatch.setattr(database, "RETRY_DELAYS_S", (0.05, 0.05, 0.05))
    monkeypatch.setattr(writer, "OUTAGE_S_MAX", 0.5)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    with open_database(postgres_server) as name:
        yield postgres_server.url(name)


@pytest.fixture
async def on_postgres(short_retries: None, postgres_url: str) -> AsyncIterator[Client]:
    async with served(postgres_url) as client:
        yield client


@pytest.mark.proves("I20")
@pytest.mark.backend("postgres")
async def test_every_call_is_503_while_the_database_is_down(
    on_postgres: Client, postgres_server: PostgresServer
) -> None:
    client = on_postgres
    run_id = await client.submit("echo")
    await client.wait_for_end(run_id)
    postgres_server.kill()
    try:
        assert_refused(await client.get("/api/runs"), 503, "unavailable")
        assert_refused(await client.get("/api/state"), 503, "unavailable")
        assert_refused(await client.get(f"/api/runs/{run_id}/events", **SSE), 503, "unavailable")
        assert_refused(await client.get("/metrics"), 503, "unavailable")
        assert_refused(await client.post("/api/runs", {"job": "echo"}), 503, "unavailable")
        assert_refused(
            await client.call("PATCH", "/api/lanes/main", {"paused": True}), 503, "unavailable"
        )
        assert_refused(await client.get("/readyz"), 503, "unavailable")
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
async def test_unresponsive_database_makes_the_server_unready(
    on_postgres: Client, postgres_server: PostgresServer
) -> None:
    assert (await on_postgres.get("/readyz")).status == 200
    postgres_server.pause()
    try:
        async with asyncio.timeout(BOUND_S):
            while (answer := await on_postgres.get("/readyz")).status == 200:
                pass  # A recent result is reused for a while.
        assert_refused(answer, 503, "unavailable")
    finally:
        postgres_server.resume()


@pytest.mark.proves("I20")
@pytest.mark.backend("postgres")
async def test_read_only_database_makes_the_server_unready(
    on_postgres: Client, postgres_server: PostgresServer
) -> None:
    """A demoted primary serves reads and refuses writes."""
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
        assert_refused(answer, 503, "unavailable")
    finally:
        postgres_server.execute(
            may_write,
            "ALTER SYSTEM RESET default_transaction_read_only",
            "SELECT pg_reload_conf()",
        )
    async with asyncio.timeout(BOUND_S):
        while (await on_postgres.get("/readyz")).status != 200:
            pass
