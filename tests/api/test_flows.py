"""Flows and tasks over HTTP, in headway's own manner (R5.10, R5.11, I15)."""

import asyncio
from typing import Any, Final

import pytest

from headway.api.http.cursor import encode_cursor
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


async def waiting(client: Client, task_id: str, kind: str) -> Any:
    while True:
        task = (await client.get(f"/api/tasks/{task_id}")).body
        if task["waits_for"] == kind:
            return task
        await asyncio.sleep(0.01)


@pytest.mark.proves("R5.1")
async def test_a_flow_is_published_shown_and_drawn(client: Client) -> None:
    made = await client.call("PUT", "/api/flows/orders", ASK)
    assert (made.status, made["version"], made["warnings"]) == (201, 1, [])
    assert made.headers["etag"] == '"1"'
    assert (await client.call("PUT", "/api/flows/orders", ASK)).status == 200
    other = {"start": "a", "nodes": {"a": {"kind": "choice"}, "b": {"kind": "choice"}}}
    stale = await client.call("PUT", "/api/flows/orders", other, If_Match='"9"')
    assert (stale.status, stale["revision"]) == (412, 1)
    second = await client.call("PUT", "/api/flows/orders", other, If_Match='"1"')
    assert "nodes.b" in [one["place"] for one in second["warnings"]]
    flow = await client.get("/api/flows/orders")
    assert (flow["version"], set(flow["definition"]["nodes"])) == (2, {"a", "b"})
    first = await client.get("/api/flows/orders?version=1")
    assert set(first["definition"]["nodes"]) == {"ask", "hear"}
    assert [one["name"] for one in (await client.get("/api/flows"))["flows"]] == ["orders"]
    versions = (await client.get("/api/flows/orders/versions"))["versions"]
    assert [one["version"] for one in versions] == [2, 1]
    assert "flowchart" in (await client.get("/api/flows/orders/graph")).body
    assert "flow" in (await client.get("/api/flow-schema"))["$defs"]
    missing = await client.get("/api/flows/none")
    assert (missing.status, missing["code"]) == (404, "flow_not_found")


@pytest.mark.proves("I15")
async def test_every_fault_of_a_definition_is_named(client: Client) -> None:
    bad = {"start": "z", "nodes": {"a": {"kind": "magic"}}}
    for method, path in (("PUT", "/api/flows/bad"), ("POST", "/api/flow-check")):
        refused = await client.call(method, path, bad)
        assert (refused.status, refused["code"]) == (422, "invalid_flow")
        assert {one["place"] for one in refused["faults"]} == {"start", "nodes.a.kind"}
    good = await client.post("/api/flow-check", ASK)
    assert (good.status, good.body) == (200, {"warnings": []})


@pytest.mark.proves("R5.11")
async def test_a_task_is_started_approved_signalled_and_run_again(client: Client) -> None:
    await client.call("PUT", "/api/flows/asks", ASK)
    task = await client.post("/api/flows/asks/tasks", {"params": {"n": 1}, "key": "ann"})
    assert (task.status, task["flow"], task["params"]) == (201, "asks", {"n": 1})
    task_id = task["id"]
    busy = await client.post("/api/flows/asks/tasks", {"key": "ann"})
    assert (busy.status, busy["active_run_id"]) == (409, task_id)
    await waiting(client, task_id, "approval")
    listed = (await client.get("/api/tasks?waits_for=approval"))["tasks"]
    assert [one["id"] for one in listed] == [task_id]
    assert (await client.post(f"/api/tasks/{task_id}/approve", {"answer": True})).status == 202
    await waiting(client, task_id, "event")
    again = await client.post(f"/api/tasks/{task_id}/approve", {"answer": True})
    assert (again.status, again["code"]) == (409, "stale")
    signal = await client.post(f"/api/tasks/{task_id}/signal", {"key": "go", "value": 5})
    assert (signal.status, signal["shared"]["go"]) == (202, 5)
    await client.hw.run(task_id).wait_for_end()
    rows = (await client.get(f"/api/tasks/{task_id}/node-runs?after=1"))["node_runs"]
    assert [(row["seq"], row["node"], row["status"]) for row in rows] == [(2, "hear", "ok")]
    over = await client.post(f"/api/tasks/{task_id}/signal", {"key": "go", "value": 5})
    assert (over.status, over["code"]) == (409, "run_not_active")
    rerun = await client.post(f"/api/tasks/{task_id}/rerun", {"node": "hear"})
    assert (rerun.status, rerun["rerun_of"]) == (201, task_id)
    await client.hw.run(rerun["id"]).wait_for_end()
    lost = await client.get("/api/tasks/none")
    assert (lost.status, lost["code"]) == (404, "run_not_found")


@pytest.mark.proves("I11")
async def test_a_task_is_canceled_and_workers_are_listed(client: Client) -> None:
    await client.call("PUT", "/api/flows/asks", ASK)
    task_id = (await client.post("/api/flows/asks/tasks", {}))["id"]
    await waiting(client, task_id, "approval")
    ended = await client.post(f"/api/tasks/{task_id}/cancel", {"reason": "enough"})
    assert (ended.status, ended["answer"], ended["task"]["status"]) == (202, "canceled", "canceled")
    rows = (await client.get(f"/api/tasks/{task_id}/node-runs"))["node_runs"]
    assert [(row["node"], row["status"], row["error"]) for row in rows] == [
        ("ask", "canceled", "enough")
    ]
    assert [one["id"] for one in (await client.get("/api/tasks?status=canceled"))["tasks"]]
    await client.hw.workers.register("w", "http://127.0.0.1:9", ["sum"])
    (worker,) = (await client.get("/api/workers"))["workers"]
    assert (worker["id"], worker["services"], worker["load"]) == ("w", ["sum"], 0)
    assert (worker["is_alive"], worker["calls"]) == (True, [])


@pytest.mark.proves("I11")
async def test_a_task_is_canceled_as_a_run_is(client: Client) -> None:
    await client.call("PUT", "/api/flows/asks", ASK)
    task_id = (await client.post("/api/flows/asks/tasks", {}))["id"]
    await waiting(client, task_id, "approval")
    ended = await client.post(f"/api/tasks/{task_id}/cancel", {"files": "delete"})
    assert (ended.status, ended["answer"]) == (202, "canceled")
    run = await client.get(f"/api/runs/{task_id}")
    assert run["cancel"]["files"] == "delete"
    for kind in ("tasks", "runs"):  # It is over; and what to say of a cancel may be left unsaid.
        late = await client.post(f"/api/{kind}/{task_id}/cancel")
        assert (late.status, late["code"], late["run_id"]) == (409, "run_not_active", task_id)


@pytest.mark.proves("R5.10")
async def test_a_worker_tells_what_is_held_and_a_silent_one_is_shown(client: Client) -> None:
    async with hostile_worker() as address:
        await client.hw.workers.register("w", address, ["silent"])
        node = {"kind": "executor", "service": "silent"}
        await client.call("PUT", "/api/flows/calls", {"start": "a", "nodes": {"a": node}})
        task_id = (await client.post("/api/flows/calls/tasks", {}))["id"]
        calls: list[Any] = []
        while not calls:
            (worker,) = (await client.get("/api/workers"))["workers"]
            calls = worker["calls"]
        assert [(one["task_id"], one["service"]) for one in calls] == [(task_id, "silent")]
        await client.post(f"/api/tasks/{task_id}/cancel", {})
        await client.hw.run(task_id).wait_for_end()
    (worker,) = (await client.get("/api/workers?heard_within_s=86400"))["workers"]
    assert worker["calls"] == []
    assert (await client.get("/api/workers?heard_within_s=0.000001"))["workers"] == []


@pytest.mark.proves("I15")
async def test_a_flow_that_is_read_tells_its_warnings(client: Client) -> None:
    node = {"kind": "executor", "service": "nobody-offers-this"}
    await client.call("PUT", "/api/flows/calls", {"start": "a", "nodes": {"a": node}})
    (warning,) = (await client.get("/api/flows/calls"))["warnings"]
    assert warning["place"] == "nodes.a"


@pytest.mark.proves("I15")
@pytest.mark.parametrize("number", [1 << 31, 1 << 63, 10**30])
async def test_a_number_that_no_database_takes_is_refused(client: Client, number: int) -> None:
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
