"""A server whose SQLite file is deleted is unready, refuses calls and stops jobs (I3, I20)."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from headway import Headway
from headway.api.routes import health
from headway.services.context.run_context import RunContext
from tests.api.client import Client
from tests.api.conftest import served, served_in_this_loop

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.proves("I3", "I20")]

BOUND_S = 30.0
LEASE_TTL_S = 1.0


@pytest.fixture
def path(url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(health, "PROBE_INTERVAL_S", 0.0)
    return Path(url.removeprefix("sqlite:///"))


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def move(path: Path, to: Path) -> None:
    path.rename(to)


def exists(path: Path) -> bool:
    return path.exists()


async def submit_twenty(client: Client) -> Counter[tuple[int, str]]:
    answers = [
        await client.post("/api/runs", {"job": "echo", "key": f"key-{number}"})
        for number in range(20)
    ]
    assert all("was deleted while headway used it" in answer["detail"] for answer in answers)
    assert all(answer.headers["retry-after"] for answer in answers)
    return Counter((answer.status, answer["code"]) for answer in answers)


async def test_server_without_its_file_is_unready_and_refuses_every_submission(
    url: str, path: Path
) -> None:
    async with served(url) as client:
        assert (await client.get("/readyz")).status == 200
        delete(path)
        assert await submit_twenty(client) == {(503, "database_file_lost"): 20}
        ready = await client.get("/readyz")
        assert (ready.status, ready["code"]) == (503, "database_file_lost")
        assert "until the same file is back or headway is restarted" in ready["detail"]
        assert str(path.parent) not in ready["detail"]
        assert (await client.get("/api/runs")).status == 503
        assert (await client.get("/healthz")).status == 200
        assert not exists(path)


async def test_server_is_ready_again_when_the_same_file_is_back(url: str, path: Path) -> None:
    away = path.with_name("away.db")
    async with served(url) as client:
        move(path, away)
        assert (await client.get("/readyz")).status == 503
        move(away, path)
        assert (await client.get("/readyz")).status == 200
        assert (await client.post("/api/runs", {"job": "echo"})).status == 201


async def test_jobs_are_stopped_when_the_database_file_is_lost(url: str, path: Path) -> None:
    """Their results could not be stored, and a new file may have another owner."""
    ended = asyncio.Event()
    hw = Headway(url, stop_wait_s=0, lease_ttl_s=LEASE_TTL_S)

    @hw.job
    async def stay(ctx: RunContext) -> None:
        try:
            delete(path)
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with (
        asyncio.timeout(BOUND_S),
        hw,
        served_in_this_loop(hw) as address,
        Client(address, hw) as client,
    ):
        assert (await client.post("/api/runs", {"job": "stay"})).status == 201
        await ended.wait()


async def test_first_server_does_not_write_to_the_new_file_of_a_second_server(
    url: str, path: Path
) -> None:
    async with served(url) as first:
        delete_all(path)
        async with served(url) as second:
            answer = await second.post("/api/runs", {"job": "stay", "key": "ann"})
            assert answer.status == 201
            assert await submit_to_lost(first) == (503, "database_file_lost")
            listed = await second.get("/api/runs")
            assert [run["key"] for run in listed["runs"]] == ["ann"]


async def submit_to_lost(client: Client) -> tuple[int, str]:
    answer = await client.post("/api/runs", {"job": "echo", "key": "bob"})
    return answer.status, answer["code"]
