"""The same idempotency key always returns the same run or task (I6)."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from headway.core.ids import LaneName, RunId
from headway.testing import document
from tests.api.client import Client
from tests.api.conftest import served
from tests.api.test_flows import ASK, wait_until_waiting

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with served(url, has_schedule=True) as client:
        await client.call("PUT", "/api/flows/asks", ASK)
        await client.call("PUT", "/api/flows/others", ASK)
        yield client


@pytest.mark.proves("I6")
async def test_task_is_started_once_per_idempotency_key(client: Client) -> None:
    body = {"params": {"n": 1}, "key": "ann"}
    first = await client.post("/api/flows/asks/tasks", body, idempotency_key="one")
    again = await client.post("/api/flows/asks/tasks", body, idempotency_key="one")
    assert (first.status, again.status, again["id"]) == (201, 201, first["id"])
    assert first.headers["location"] == f"/api/tasks/{first['id']}"
    for path, other in (
        ("asks", {**body, "params": {"n": 2}}),
        ("asks", {**body, "version": 1}),
        ("asks", {**body, "lane": "flow"}),
        ("asks", {**body, "key": "bob"}),
        ("asks", {**body, "on_conflict": "enqueue"}),
        ("asks", {**body, "timeout_s": 60}),
        ("others", body),
    ):
        refused = await client.post(f"/api/flows/{path}/tasks", other, idempotency_key="one")
        assert (refused.status, refused["code"]) == (422, "idempotency_conflict")
        assert refused["run_id"] == first["id"]


@pytest.mark.proves("I6")
async def test_repeated_start_returns_the_same_task_even_if_the_flow_has_a_newer_version(
    client: Client,
) -> None:
    first = await client.post("/api/flows/asks/tasks", {}, idempotency_key="one")
    newer = {"start": "a", "nodes": {"a": {"kind": "choice"}}}
    assert (await client.call("PUT", "/api/flows/asks", newer)).status == 201
    again = await client.post("/api/flows/asks/tasks", {}, idempotency_key="one")
    assert (again.status, again["id"], again["version"]) == (201, first["id"], 1)


@pytest.mark.proves("I6")
async def test_task_is_rerun_once_per_idempotency_key(client: Client) -> None:
    task_id = (await client.post("/api/flows/asks/tasks", {"key": "ann"}))["id"]
    await wait_until_waiting(client, task_id, "approval")
    await client.post(f"/api/tasks/{task_id}/cancel")
    path = f"/api/tasks/{task_id}/rerun"
    first = await client.post(path, {"node": "ask"}, idempotency_key="one")
    again = await client.post(path, {"node": "ask"}, idempotency_key="one")
    assert (first.status, again.status, again["id"]) == (201, 201, first["id"])
    other = await client.post(path, {"node": "hear"}, idempotency_key="one")
    assert (other.status, other["code"]) == (422, "idempotency_conflict")


@pytest.mark.proves("I6")
async def test_schedule_is_run_once_per_idempotency_key(client: Client) -> None:
    first = await client.post("/api/schedules/yearly/run", idempotency_key="one")
    await client.wait_for_end(first["id"])
    again = await client.post("/api/schedules/yearly/run", idempotency_key="one")
    assert (first.status, again.status, again["id"]) == (201, 201, first["id"])


@pytest.mark.proves("I6")
async def test_repeated_run_of_a_changed_schedule_returns_the_same_run(
    client: Client,
) -> None:
    first = await client.post("/api/schedules/yearly/run", idempotency_key="one")
    yearly = client.hw.schedules["yearly"]
    # As a newer version of the program would define it.
    newer = replace(yearly, params=document({"text": "new"}), lane=LaneName("other"), timeout_s=9.0)
    client.hw._schedules.update(yearly=newer, monthly=replace(yearly, name="monthly"))
    again = await client.post("/api/schedules/yearly/run", idempotency_key="one")
    assert (again.status, again["id"]) == (201, first["id"])
    other = await client.post("/api/schedules/monthly/run", idempotency_key="one")
    assert (other.status, other["code"]) == (422, "idempotency_conflict")


@pytest.mark.proves("I6")
@pytest.mark.parametrize(
    "more",
    [
        {"job": "stay"},
        {"key": "ann"},
        {"params": {}},
        {"lane": "main"},
        {"mode": "continue"},
        {"on_conflict": "enqueue"},
        {"timeout_s": 5},
        {"queue_timeout_s": 5},
        {"on_existing_output": "replace"},
    ],
)
async def test_another_body_under_the_same_idempotency_key_is_refused(
    client: Client, more: dict[str, Any]
) -> None:
    first = await client.post("/api/runs", {"job": "echo"}, idempotency_key="one")
    other = await client.post("/api/runs", {"job": "echo", **more}, idempotency_key="one")
    assert (other.status, other["code"]) == (422, "idempotency_conflict")
    assert other["run_id"] == first["id"]


@pytest.mark.proves("I6")
async def test_changed_job_defaults_do_not_conflict_with_an_idempotency_key(client: Client) -> None:
    first = await client.post("/api/runs", {"job": "echo"}, idempotency_key="one")
    # As a newer version of the program would define it.
    object.__setattr__(client.hw.jobs["echo"], "timeout_s", 60.0)
    object.__setattr__(client.hw.jobs["echo"], "lane", "other")
    again = await client.post("/api/runs", {"job": "echo"}, idempotency_key="one")
    assert (again.status, again["id"]) == (201, first["id"])


@pytest.mark.proves("R1.5")
async def test_conflict_policy_of_a_task_is_applied_to_a_busy_key(client: Client) -> None:
    path = "/api/flows/asks/tasks"
    first = await client.post(path, {"key": "ann"})
    joined = await client.post(path, {"key": "ann", "on_conflict": "join"})
    assert (joined.status, joined["id"]) == (201, first["id"])
    behind = await client.post(path, {"key": "ann", "on_conflict": "enqueue"})
    assert (behind.status, behind["status"]) == (201, "queued")
    run_id = await client.submit("stay", key="bob")
    other = await client.post(path, {"key": "bob", "on_conflict": "join"})
    assert (other.status, other["code"], other["active_run_id"]) == (409, "key_busy", run_id)


@pytest.mark.proves("I6")
async def test_message_is_sent_once_per_idempotency_key(client: Client) -> None:
    run_id = await client.submit("stay")
    path = f"/api/runs/{run_id}/messages"
    later = {"content": "hello", "deliver": "when_listening"}
    for _ in range(2):
        assert (await client.post(path, later, idempotency_key="one")).status == 202
    refused = await client.post(path, {"content": "goodbye"}, idempotency_key="one")
    assert (refused.status, refused["code"]) == (422, "idempotency_conflict")
    assert len(await client.hw.store.runs.inbox(RunId(run_id))) == 1
