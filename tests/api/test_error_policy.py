"""The policy for a failed node depends on the API that published the flow (R5.14)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from headway.worker.program import Worker
from headway.worker.service_registry import Services
from tests.api.client import Client
from tests.api.test_wire_v1 import BRANCH, FAIL_FAST, PARALLEL, SUBFLOW, ended, published, started

pytestmark = pytest.mark.backend("sqlite")

SHIPPING: Final[dict[str, Any]] = {
    "start": "credit",
    "nodes": {
        "credit": {"kind": "executor", "service": "transform", "params": {"op": "sideways"}},
        "ship": {"kind": "timer", "params": {"delay_ms": 0}, "post": {"output_key": "shipped"}},
    },
    "edges": [{"from": "credit", "to": "ship"}],
}
NOT_WAITING: Final = {"worker_wait_ms": 0}


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    made = Worker(Services(), url="http://127.0.0.1:8080", registry_url=client.address, drain_s=0)
    async with made as worker:
        await worker.wait_until_registered()
        yield worker


async def run_to_end(client: Client, definition: Any, params: Any) -> Any:
    """Publish a flow through `/api`, and return its task when it has ended."""
    made = await client.call("PUT", "/api/flows/own", definition)
    assert made.status in (200, 201), made.body
    task = await client.post("/api/flows/own/tasks", {"params": params})
    await client.hw.run(task["id"]).wait_for_end()
    return (await client.get(f"/api/tasks/{task['id']}")).body


@pytest.mark.proves("R5.14")
@pytest.mark.parametrize(
    ("definition", "params", "shared"),
    [
        (BRANCH, {"text": "Hi", "action": "goB"}, {"result": "HI"}),
        (PARALLEL, {"val": 2}, {"agg": [6, {"action": "goX"}]}),
        (SUBFLOW, {"val": 2}, {"sub_out": {"m": 10}}),
    ],
    ids=["branch", "parallel-agg", "subflow-demo"],
)
async def test_golden_flows_also_succeed_when_published_through_the_api(
    client: Client, worker: Worker, definition: Any, params: Any, shared: Any
) -> None:
    task = await run_to_end(client, definition, params)
    assert (task["status"], task["shared"]) == ("succeeded", shared)


@pytest.mark.proves("R5.14")
async def test_golden_flow_with_a_failed_branch_fails_when_published_through_the_api(
    client: Client, worker: Worker
) -> None:
    task = await run_to_end(client, {**FAIL_FAST, **NOT_WAITING}, {"val": 2})
    assert (task["status"], task["node"], task["shared"]) == ("failed", "p", {"agg": [4]})
    assert task["error"]["message"] == "node 'p' failed: no worker"
    by_wire = await ended(client, await started(client, FAIL_FAST, {"val": 2}))
    assert (by_wire["Status"], json.loads(by_wire["SharedJSON"])) == ("completed", {"agg": [4]})


@pytest.mark.proves("R5.14")
async def test_failed_step_ends_the_task_unless_the_flow_was_published_at_the_root_paths(
    client: Client, worker: Worker
) -> None:
    task = await run_to_end(client, SHIPPING, {})
    assert (task["status"], task["node"], task["shared"]) == ("failed", "credit", {})
    assert task["error"]["node"] == "credit"
    by_wire = await ended(client, await started(client, SHIPPING, {}))
    assert (by_wire["Status"], json.loads(by_wire["SharedJSON"])) == (
        "completed",
        {"shipped": None},
    )


@pytest.mark.proves("R5.14")
async def test_each_api_stores_its_default_error_policy_with_the_definition(client: Client) -> None:
    await client.call("PUT", "/api/flows/own", SHIPPING)
    await published(client, SHIPPING, "theirs")
    policies = {}
    for flow in (await client.get("/api/flows"))["flows"]:
        shown = await client.get(f"/api/flows/{flow['name']}")
        policies[flow["name"]] = shown["definition"]["error_policy"]
    assert sorted(policies.values()) == ["fail", "follow_default"]
    assert policies["own"] == "fail"
    with_policy = SHIPPING | {"error_policy": "fail"}
    flow_id = await published(client, with_policy, "named")
    saved = await client.hw.flows.get_by_id(flow_id)
    assert (await client.get(f"/api/flows/{saved.name}"))["definition"]["error_policy"] == "fail"


@pytest.mark.proves("R5.14")
async def test_strict_check_refuses_warnings(client: Client, worker: Worker) -> None:
    lenient = SHIPPING | {"error_policy": "follow_default"}
    checked = await client.post("/api/flow-check", lenient)
    assert [warning["path"] for warning in checked["warnings"]] == ["nodes.credit"]
    for method, path in (("PUT", "/api/flows/own"), ("POST", "/api/flow-check")):
        refused = await client.call(method, f"{path}?strict=true", lenient)
        assert (refused.status, refused["code"]) == (422, "invalid_flow")
        assert [warning["path"] for warning in refused["errors"]] == ["nodes.credit"]
    assert (await client.get("/api/flows"))["flows"] == []
    made = await client.call("PUT", "/api/flows/own?strict=true", SHIPPING)
    assert (made.status, made["warnings"]) == (201, [])


@pytest.mark.proves("R5.14")
async def test_task_that_waits_for_a_worker_shows_the_service_and_deadline(client: Client) -> None:
    await client.call("PUT", "/api/flows/own", SHIPPING)
    task_id = (await client.post("/api/flows/own/tasks", {}))["id"]
    while (task := await client.get(f"/api/tasks/{task_id}"))["waits_for"] != "worker":  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    awaited = task["awaited_worker"]
    assert awaited["services"] == ["transform"]
    why = await client.get(f"/api/runs/{task_id}/explain")
    assert (why["gate"], why["since"], why["until"]) == (
        "no_worker",
        awaited["since"],
        awaited["until"],
    )
    listed = (await client.get("/api/tasks?waits_for=worker"))["tasks"]
    assert [row["id"] for row in listed] == [task_id]
