"""Flows and tasks over the HTTP API (R5.10, R5.11, I15)."""

import asyncio
from typing import Any, Final

import pytest

from headway.api.http.cursor import encode_cursor
from headway.core.errors import InvalidInput
from tests.api.client import Client
from tests.engine.flow.hostile import hostile_worker

pytestmark = pytest.mark.backend("sqlite")

ASK: Final = {
    "start": "ask",
    "nodes": {
        "ask": {"kind": "approval", "params": {"approval_key": "$shared.ok"}},
        "hear": {"kind": "wait_event", "params": {"signal_key": "go"}},
    },
    "edges": [{"from": "ask", "action": "approved", "to": "hear"}],
}


async def wait_until_waiting(client: Client, task_id: str, kind: str) -> Any:
    while True:
        task = (await client.get(f"/api/tasks/{task_id}")).body
        if task["waits_for"] == kind:
            return task
        await asyncio.sleep(0.01)


@pytest.mark.proves("R5.1")
async def test_a_flow_is_published_shown_and_drawn(client: Client) -> None:
    created = await client.call("PUT", "/api/flows/orders", ASK)
    assert (created.status, created["version"], created["warnings"]) == (201, 1, [])
    assert created.headers["etag"] == '"1"'
    assert (await client.call("PUT", "/api/flows/orders", ASK)).status == 200
    other = {"start": "a", "nodes": {"a": {"kind": "choice"}, "b": {"kind": "choice"}}}
    stale = await client.call("PUT", "/api/flows/orders", other, If_Match='"9"')
    assert (stale.status, stale["revision"]) == (412, 1)
    second = await client.call("PUT", "/api/flows/orders", other, If_Match='"1"')
    assert "nodes.b" in [warning["path"] for warning in second["warnings"]]
    flow = await client.get("/api/flows/orders")
    assert (flow["version"], set(flow["definition"]["nodes"])) == (2, {"a", "b"})
    first = await client.get("/api/flows/orders?version=1")
    assert set(first["definition"]["nodes"]) == {"ask", "hear"}
    assert [flow["name"] for flow in (await client.get("/api/flows"))["flows"]] == ["orders"]
    versions = (await client.get("/api/flows/orders/versions"))["versions"]
    assert [version["version"] for version in versions] == [2, 1]
    assert "flowchart" in (await client.get("/api/flows/orders/graph")).body
    assert "flow" in (await client.get("/api/flow-schema"))["$defs"]
    missing = await client.get("/api/flows/none")
    assert (missing.status, missing["code"]) == (404, "flow_not_found")


@pytest.mark.proves("I15")
async def test_every_error_in_a_definition_is_reported(client: Client) -> None:
    bad = {"start": "z", "nodes": {"a": {"kind": "magic"}}}
    for method, path in (("PUT", "/api/flows/bad"), ("POST", "/api/flow-check")):
        refused = await client.call(method, path, bad)
        assert (refused.status, refused["code"]) == (422, "invalid_flow")
        assert {error["path"] for error in refused["errors"]} == {"start", "nodes.a.kind"}
    good = await client.post("/api/flow-check", ASK)
    assert (good.status, good.body) == (200, {"warnings": []})


@pytest.mark.proves("I15")
async def test_task_with_the_conflict_policy_steer_is_refused(client: Client) -> None:
    """The parameters would become a message to another run, and no task would exist."""
    await client.call("PUT", "/api/flows/asks", ASK)
    refused = await client.post("/api/flows/asks/tasks", {"key": "ann", "on_conflict": "steer"})
    assert (refused.status, refused["path"]) == (422, "on_conflict")
    assert refused["detail"].endswith("one of: reject, enqueue, replace, join")
    with pytest.raises(InvalidInput, match="on_conflict"):
        await client.hw.flows.start("asks", key="ann", on_conflict="steer")
    assert (await client.get("/api/tasks"))["tasks"] == []


@pytest.mark.proves("R5.11")
async def test_a_task_is_started_approved_signalled_and_run_again(client: Client) -> None:
    await client.call("PUT", "/api/flows/asks", ASK)
    task = await client.post("/api/flows/asks/tasks", {"params": {"n": 1}, "key": "ann"})
    assert (task.status, task["flow"], task["params"]) == (201, "asks", {"n": 1})
    task_id = task["id"]
    busy = await client.post("/api/flows/asks/tasks", {"key": "ann"})
    assert (busy.status, busy["active_run_id"]) == (409, task_id)
    await wait_until_waiting(client, task_id, "approval")
    listed = (await client.get("/api/tasks?waits_for=approval"))["tasks"]
    assert [task["id"] for task in listed] == [task_id]
    assert (await client.post(f"/api/tasks/{task_id}/approve", {"answer": True})).status == 202
    await wait_until_waiting(client, task_id, "event")
    again = await client.post(f"/api/tasks/{task_id}/approve", {"answer": True})
    assert (again.status, again["code"]) == (409, "stale")
    signal = await client.post(f"/api/tasks/{task_id}/signal", {"key": "go", "value": 5})
    assert (signal.status, signal["shared"]["go"]) == (202, 5)
    await client.hw.run(task_id).wait_for_end()
    rows = (await client.get(f"/api/tasks/{task_id}/node-runs?after=1"))["node_runs"]
    assert [(row["seq"], row["node"], row["status"]) for row in rows] == [(2, "hear", "ok")]
    late = await client.post(f"/api/tasks/{task_id}/signal", {"key": "go", "value": 5})
    assert (late.status, late["code"]) == (409, "run_not_active")
    rerun = await client.post(f"/api/tasks/{task_id}/rerun", {"node": "hear"})
    assert (rerun.status, rerun["rerun_of"]) == (201, task_id)
    await client.hw.run(rerun["id"]).wait_for_end()
    lost = await client.get("/api/tasks/none")
    assert (lost.status, lost["code"]) == (404, "run_not_found")


@pytest.mark.proves("I11")
async def test_a_task_is_canceled_and_workers_are_listed(client: Client) -> None:
    await client.call("PUT", "/api/flows/asks", ASK)
    task_id = (await client.post("/api/flows/asks/tasks", {}))["id"]
    await wait_until_waiting(client, task_id, "approval")
    ended = await client.post(f"/api/tasks/{task_id}/cancel", {"reason": "enough"})
    assert (ended.status, ended["answer"], ended["task"]["status"]) == (202, "canceled", "canceled")
    rows = (await client.get(f"/api/tasks/{task_id}/node-runs"))["node_runs"]
    assert [(row["node"], row["status"], row["error"]) for row in rows] == [
        ("ask", "canceled", "enough")
    ]
    assert [task["id"] for task in (await client.get("/api/tasks?status=canceled"))["tasks"]]
    await client.hw.workers.register("w", "http://127.0.0.1:9", ["sum"])
    (worker,) = (await client.get("/api/workers"))["workers"]
    assert (worker["id"], worker["services"], worker["load"]) == ("w", ["sum"], 0)
    assert (worker["is_alive"], worker["calls"]) == (True, [])


@pytest.mark.proves("I11")
async def test_task_is_canceled_with_the_options_of_a_run(client: Client) -> None:
    await client.call("PUT", "/api/flows/asks", ASK)
    task_id = (await client.post("/api/flows/asks/tasks", {}))["id"]
    await wait_until_waiting(client, task_id, "approval")
    ended = await client.post(f"/api/tasks/{task_id}/cancel", {"files": "delete"})
    assert (ended.status, ended["answer"]) == (202, "canceled")
    run = await client.get(f"/api/runs/{task_id}")
    assert run["cancel"]["files"] == "delete"
    for kind in ("tasks", "runs"):  # The run has ended. The body of a cancel is optional.
        late = await client.post(f"/api/{kind}/{task_id}/cancel")
        assert (late.status, late["code"], late["run_id"]) == (409, "run_not_active", task_id)


@pytest.mark.proves("R5.10")
async def test_workers_are_listed_with_their_calls_and_by_their_last_heartbeat(
    client: Client,
) -> None:
    async with hostile_worker() as address:
        await client.hw.workers.register("w", address, ["silent"])
        node = {"kind": "executor", "service": "silent"}
        await client.call("PUT", "/api/flows/calls", {"start": "a", "nodes": {"a": node}})
        task_id = (await client.post("/api/flows/calls/tasks", {}))["id"]
        calls: list[Any] = []
        while not calls:
            (worker,) = (await client.get("/api/workers"))["workers"]
            calls = worker["calls"]
        assert [(call["task_id"], call["service"]) for call in calls] == [(task_id, "silent")]
        await client.post(f"/api/tasks/{task_id}/cancel", {})
        await client.hw.run(task_id).wait_for_end()
    (worker,) = (await client.get("/api/workers?heard_within_s=86400"))["workers"]
    assert worker["calls"] == []
    assert (await client.get("/api/workers?heard_within_s=0.000001"))["workers"] == []


@pytest.mark.proves("I15")
async def test_flow_is_returned_with_its_warnings(client: Client) -> None:
    node = {"kind": "executor", "service": "offered-by-no-worker"}
    await client.call("PUT", "/api/flows/calls", {"start": "a", "nodes": {"a": node}})
    (warning,) = (await client.get("/api/flows/calls"))["warnings"]
    assert warning["path"] == "nodes.a"


@pytest.mark.proves("I15")
@pytest.mark.parametrize("number", [1 << 31, 1 << 63, 10**30])
async def test_number_too_large_for_the_database_is_refused(client: Client, number: int) -> None:
    await client.call("PUT", "/api/flows/small", ASK)
    task = await client.call("POST", "/api/flows/small/tasks", {})
    for path in (f"tasks/{task['id']}/node-runs?after={number}", f"flows/small?version={number}"):
        refused = await client.call("GET", f"/api/{path}")
        assert (refused.status, refused["code"]) == (422, "invalid_input"), path
    refused = await client.call("POST", "/api/flows/small/tasks", {"version": number})
    assert refused.status == 422
    listed = await client.call(
        "GET", f"/api/flows/small/versions?cursor={encode_cursor(min(number, (1 << 63) - 1))}"
    )
    assert listed.status == 200
