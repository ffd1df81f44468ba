"""`/readyz` reports if the server can commit a write now (I20)."""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.api.application import build_application
from headway.api.http.access import Access
from headway.api.http.origin import Origins
from headway.api.routes import health
from headway.api.routes.event_routes import encode_event
from headway.api.routes.metrics import Metrics
from headway.app import Headway
from headway.cli.client.in_process import LocalTransport
from headway.core.command.admin.instance import Probe
from headway.services.upkeep.event_feed import EventFeed
from tests.api.client import Client
from tests.api.conftest import served
from tests.cli.disk import SmallDisk, limited_disk, mounted_disk

pytestmark = pytest.mark.backend("sqlite")

BOUND_S = 30.0


@pytest.mark.proves("I20")
async def test_database_that_refuses_writes_makes_the_server_unready(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database can still be read, but that is not sufficient."""
    monkeypatch.setattr(health, "READY_S_MAX", 0.3)
    monkeypatch.setattr(health, "PROBE_INTERVAL_S", 0.0)
    held = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    try:
        answer = await client.get("/readyz")
        assert (answer.status, answer["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"]
        assert (await client.get("/api/runs")).status == 200
    finally:
        held.close()
    async with asyncio.timeout(BOUND_S):
        while (await client.get("/readyz")).status != 200:
            pass


@pytest.fixture(params=["no space left", "an error of the disk"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    if request.param == "no space left":
        with mounted_disk(folder, byte_count=16 << 20) as mounted:
            yield mounted
    else:
        with limited_disk(folder) as limited:
            yield limited


@pytest.mark.proves("I20")
async def test_full_disk_makes_a_server_unready_until_there_is_room(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROBE_INTERVAL_S", 0.0)
    async with served(f"sqlite:///{disk.folder}/headway.db") as client:
        assert (await client.get("/readyz")).status == 200
        disk.fill()
        assert (await client.post("/api/runs", {"job": "echo"})).status == 503
        answer = await client.get("/readyz")
        assert (answer.status, answer["code"]) == (503, "unavailable")
        assert answer["detail"] == "the database refuses writes; check whether its disk is full"
        assert answer.headers["retry-after"]
        disk.free()
        async with asyncio.timeout(BOUND_S):
            while (await client.get("/readyz")).status != 200:
                pass
        assert (await client.post("/api/runs", {"job": "echo"})).status == 201


@pytest.mark.proves("I20")
async def test_failed_readiness_probe_is_logged_once_for_all_requests_that_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "READY_S_MAX", BOUND_S)
    monkeypatch.setattr(health, "PROBE_INTERVAL_S", 3_600.0)
    with limited_disk(tmp_path / "disk") as disk:
        async with served(f"sqlite:///{disk.folder}/headway.db") as client:
            disk.fill()
            answers = await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
            disk.free()
    assert {answer.status for answer in answers} == {503}
    warnings = [
        record for record in caplog.records if "readiness_probe_failed" in record.getMessage()
    ]
    assert len(warnings) == 1


@pytest.mark.proves("I20")
async def test_readiness_check_commits_a_write(client: Client, url: str) -> None:
    def batch_number() -> int:
        with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
            return int(database.execute("SELECT max(batch) FROM writers").fetchone()[0])

    before = batch_number()
    assert (await client.get("/readyz")).status == 200
    assert batch_number() > before


@pytest.mark.proves("I20")
async def test_concurrent_readiness_requests_share_one_probe(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROBE_INTERVAL_S", 3_600.0)
    command_counts: Counter[type] = Counter()
    apply = SqlStore.apply

    async def count_commands(store: SqlStore, command: Any) -> Any:
        command_counts[type(command)] += 1
        return await apply(store, command)

    monkeypatch.setattr(SqlStore, "apply", count_commands)
    answers = await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert command_counts[Probe] <= 1


@pytest.mark.proves("I20")
async def test_stopping_server_is_not_ready(url: str) -> None:
    async with Headway(url) as hw, EventFeed(hw.store, hw.store.events, pack=encode_event) as feed:
        app = build_application(
            hw, feed, Metrics(), access=Access(()), origins=Origins(()), version="0"
        )
        transport = LocalTransport(app, "here")
        assert (await transport.request("GET", "/readyz", None, {})).status == 200
        feed.close()
        answer = await transport.request("GET", "/readyz", None, {})
        assert (answer.status, json.loads(answer.body)["code"]) == (503, "stopping")
        assert (await transport.request("GET", "/healthz", None, {})).status == 200
