"""Programs for the first flow centre work with headway unchanged (R5.6, R5.7, WIRE)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from headway.core.run.status import RunStatus
from headway.worker.program import Worker
from headway.worker.service_registry import Call, Services
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")

TASK_KEYS: Final = [
    "ID",
    "FlowVersionID",
    "Status",
    "ParamsJSON",
    "SharedJSON",
    "CurrentNodeKey",
    "LastAction",
    "StepCount",
    "RetryStateJSON",
    "LeaseOwner",
    "LeaseExpiry",
    "RequestID",
    "CreatedAt",
    "UpdatedAt",
]
NODE_RUN_KEYS: Final = [
    "id",
    "taskId",
    "nodeKey",
    "attemptNo",
    "status",
    "prepJson",
    "execInputJson",
    "execOutputJson",
    "errorText",
    "action",
    "startedAt",
    "finishedAt",
    "workerId",
    "workerUrl",
]
BRANCH: Final = {
    "start": "decide",
    "nodes": {
        "decide": {"kind": "executor", "service": "route", "post": {"action_key": "action"}},
        "B": {
            "kind": "executor",
            "service": "transform",
            "params": {"op": "upper"},
            "prep": {"input_key": "$params.text"},
            "post": {"output_key": "result"},
        },
        "C": {
            "kind": "executor",
            "service": "transform",
            "params": {"op": "lower"},
            "prep": {"input_key": "$params.text"},
            "post": {"output_key": "result"},
        },
    },
    "edges": [
        {"from": "decide", "action": "goB", "to": "B"},
        {"from": "decide", "action": "goC", "to": "C"},
    ],
}
END: Final = {"kind": "choice"}
PARALLEL: Final = {
    "start": "p",
    "nodes": {
        "p": {
            "kind": "parallel",
            "parallel_services": ["transform", "route"],
            "params": {"mul": 3, "action": "goX"},
            "prep": {"input_key": "$params.val"},
            "post": {"output_key": "agg"},
            "parallel_mode": "concurrent",
        },
        "end": END,
    },
    "edges": [{"from": "p", "action": "default", "to": "end"}],
}
SUBFLOW: Final = {
    "start": "sf",
    "nodes": {
        "sf": {
            "kind": "subflow",
            "subflow": {
                "start": "double",
                "nodes": {
                    "double": {
                        "kind": "executor",
                        "service": "transform",
                        "params": {"mul": 1},
                        "prep": {"input_key": "$params.val"},
                    },
                    "m": {
                        "kind": "executor",
                        "service": "transform",
                        "params": {"mul": 5},
                        "prep": {"input_key": "$params.val"},
                        "post": {"output_key": "m"},
                    },
                },
                "edges": [{"from": "double", "action": "default", "to": "m"}],
            },
            "post": {"output_key": "sub_out"},
        },
        "end": END,
    },
    "edges": [{"from": "sf", "action": "default", "to": "end"}],
}
FAIL_FAST: Final = {
    "start": "p",
    "nodes": {
        "p": {
            "kind": "parallel",
            "parallel_services": ["missing", "transform"],
            "params": {"mul": 2},
            "prep": {"input_key": "$params.val"},
            "post": {"output_key": "agg"},
            "parallel_mode": "concurrent",
            "failure_strategy": "fail_fast",
        },
        "end": END,
    },
    "edges": [{"from": "p", "action": "default", "to": "end"}],
}


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    services = Services()

    @services
    async def hang(input_: Any, params: dict[str, Any], call: Call) -> None:
        await asyncio.Event().wait()

    has_ended = asyncio.Event()

    @services
    async def last_to_end() -> str:
        await has_ended.wait()
        return "last to end"

    @services
    async def first_to_end() -> str:
        asyncio.get_running_loop().call_later(0.05, has_ended.set)
        return "first to end"

    address = client.address
    made = Worker(services, url="http://127.0.0.1:8080", registry_url=address, drain_s=0)
    async with made as worker:
        await worker.wait_until_registered()
        yield worker


async def published(client: Client, definition: Any, name: str = "demo") -> str:
    flow = await client.post("/flows", {"Name": name})
    assert flow.status == 200
    version = await client.post(
        "/flows/version",
        {
            "FlowID": flow["id"],
            "Version": 1,
            "DefinitionJSON": json.dumps(definition),
            "Status": "published",
        },
    )
    assert (version.status, version["id"][:4]) == (200, "ver-"), version
    flow_id: str = flow["id"]
    return flow_id


async def started(client: Client, definition: Any, params: Any, name: str = "demo") -> str:
    flow_id = await published(client, definition, name)
    body = {"flowid": flow_id, "Version": 1, "ParamsJSON": json.dumps(params)}
    task = await client.post("/tasks", body)
    assert (task.status, task["id"][:5]) == (200, "task-"), task
    task_id: str = task["id"]
    return task_id


async def ended(client: Client, task_id: str) -> dict[str, Any]:
    await client.hw.run(task_id.removeprefix("task-")).wait_for_end()
    task = await client.get(f"/tasks/get?id={task_id}")
    assert list(task.body) == TASK_KEYS
    fields: dict[str, Any] = task.body
    return fields


@pytest.mark.proves("R5.6")
@pytest.mark.parametrize(
    ("definition", "params", "golden"),
    [
        (BRANCH, {"text": "Hi", "action": "goB"}, ({"result": "HI"}, ["decide ok", "B ok"])),
        (BRANCH, {"text": "Hi", "action": "goC"}, ({"result": "hi"}, ["decide ok", "C ok"])),
        (
            PARALLEL,
            {"val": 2},
            ({"agg": [6, {"action": "goX"}]}, ["p ok", "p ok", "p ok", "end ok"]),
        ),
        (SUBFLOW, {"val": 2}, ({"sub_out": {"m": 10}}, ["sf ok", "sf ok", "end ok"])),
        (FAIL_FAST, {"val": 2}, ({"agg": [4]}, ["p error", "p ok", "end ok"])),
    ],
    ids=["goB", "goC", "parallel-agg", "subflow-demo", "parallel-failfast"],
)
async def test_golden_flows_have_the_documented_results(
    client: Client, worker: Worker, definition: Any, params: Any, golden: tuple[Any, list[str]]
) -> None:
    shared, rows = golden
    task_id = await started(client, definition, params)
    task = await ended(client, task_id)
    assert (task["Status"], json.loads(task["SharedJSON"])) == ("completed", shared)
    assert json.loads(task["ParamsJSON"]) == params
    runs = (await client.get(f"/tasks/runs?task_id={task_id}")).body
    assert all(list(run) == NODE_RUN_KEYS for run in runs)
    assert [f"{run['nodeKey']} {run['status']}" for run in runs] == rows
    called = [run for run in runs if run["workerId"]]
    assert called
    assert {(run["workerId"], run["workerUrl"]) for run in called} == {(worker.id, worker.url)}
    if "p error" in rows:
        assert {run["errorText"] for run in runs} == {"no worker", ""}


@pytest.mark.proves("R5.6")
async def test_node_runs_are_listed_in_the_order_they_started(
    client: Client, worker: Worker
) -> None:
    fan = {
        "kind": "parallel",
        "parallel_services": ["last_to_end", "first_to_end"],
        "parallel_mode": "concurrent",
        "post": {"output_key": "agg"},
    }
    nodes = {"a": END, "p": fan, "z": END}
    edges = [{"from": "a", "to": "p"}, {"from": "p", "to": "z"}]
    task_id = await started(client, {"start": "a", "nodes": nodes, "edges": edges}, {})
    await ended(client, task_id)
    runs = (await client.get(f"/tasks/runs?task_id={task_id}")).body
    assert [run["nodeKey"] for run in runs] == ["a", "p", "p", "p", "z"]
    outputs = [json.loads(run["execOutputJson"]) for run in runs[1:3]]
    assert outputs == ["last to end", "first to end"]
    by_end = sorted(runs, key=lambda run: int(run["id"].rpartition("-")[2]))
    assert json.loads(by_end[1]["execOutputJson"]) == "first to end"


@pytest.mark.proves("R5.6")
async def test_workers_register_send_heartbeats_and_are_listed(client: Client) -> None:
    """A worker without a heartbeat within the TTL is not listed (R5.8)."""
    body = {"ID": "w1", "url": "http://127.0.0.1:9", "Services": ["sum", "echo"]}
    assert (await client.post("/workers/register", body)).body == {"ok": "1"}
    assert (await client.post("/register", body | {"ID": "w2"})).body == {"ok": "1"}
    assert (await client.post("/heartbeat", {"id": "w1", "load": 3})).body == {"ok": "1"}
    assert (await client.post("/workers/heartbeat", {"id": "unknown"})).body == {"ok": "1"}
    listed = (await client.get("/workers/list?service=sum")).body
    assert [worker["ID"] for worker in listed] == ["w2", "w1"]
    assert list(listed[0]) == ["ID", "URL", "Services", "Load", "LastHeartbeat", "Status"]
    assert (await client.get("/list")).body == listed
    assert (await client.get("/workers/allocate?service=sum")).body == listed[0]
    missing = await client.get("/allocate?service=nothing")
    assert (missing.status, missing.body) == (500, {"error": "no worker"})
    assert (await client.get("/list?ttl=0")).body == []


@pytest.mark.proves("R5.6")
async def test_invalid_requests_get_the_errors_of_the_contract(client: Client) -> None:
    wrong = await client.get("/flows")
    assert (wrong.status, wrong.body) == (405, {"error": "method"})
    assert (await client.get("/tasks/cancel?id=x")).status == 405
    assert (await client.post("/tasks", {"FlowID": "flow-none"})).status == 404
    empty = await client.post("/flows", {"name": "empty"})
    nothing = await client.post("/tasks", {"FlowID": empty["id"]})
    assert (nothing.status, nothing.body) == (400, {"error": "no start"})
    bad = json.dumps({"start": "z", "nodes": {"a": {"kind": "magic"}}})
    faulty = await client.post("/flows/version", {"FlowID": empty["id"], "DefinitionJSON": bad})
    assert faulty.status == 422
    assert {error["path"] for error in faulty["errors"]} == {"start", "nodes.a.kind"}
    lost = await client.get("/tasks/get?id=task-none")
    assert (lost.status, lost.body) == (404, {"error": "not found"})
    assert (await client.get("/tasks/runs?task_id=task-none")).body == []
    signal = await client.post("/tasks/signal", {"key": "go"})
    assert (signal.status, signal["error"]) == (400, "bad request")
    unknown = await client.post("/tasks/signal", {"task_id": "task-x", "key": "go", "value": 1})
    assert (unknown.status, unknown.body) == (404, {"error": "not found"})


@pytest.mark.proves("R5.6")
@pytest.mark.parametrize(
    ("path", "allowed"), [("/flows", "POST"), ("/tasks", "GET, POST"), ("/list", "GET")]
)
async def test_unsupported_method_gets_the_error_of_the_contract(
    client: Client, path: str, allowed: str
) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} - {
        *allowed.split(", ")
    }:
        answer = await client.call(method, path)
        assert (answer.status, answer.body) == (405, {"error": "method"}), method
        assert answer.headers["allow"] == allowed


@pytest.mark.proves("R5.11")
async def test_waiting_task_blocks_no_other_task_and_shows_a_signal_at_once(
    client: Client, worker: Worker
) -> None:
    wait = {"start": "w", "nodes": {"w": {"kind": "wait_event", "params": {"signal_key": "go"}}}}
    waiting = await started(client, wait, {}, "waits")
    other = await started(client, BRANCH, {"text": "Hi", "action": "goB"})
    assert (await ended(client, other))["Status"] == "completed"
    signal = {"task_id": waiting, "key": "other", "value": {"a": 1}}
    assert (await client.post("/tasks/signal", signal)).body == {"ok": "1"}
    shown = await client.get(f"/tasks/get?id={waiting}")
    assert json.loads(shown["SharedJSON"])["other"] == {"a": 1}
    assert shown["Status"] == "running"
    assert (await client.post(f"/tasks/run_once?id={waiting}")).body == {"ok": "1"}
    assert [task["ID"] for task in (await client.get("/tasks?status=running")).body] == [waiting]
    assert [task["ID"] for task in (await client.get("/tasks")).body] == [waiting, other]
    assert (await client.post(f"/tasks/cancel?id={waiting}")).body == {"ok": "1"}
    canceled = await ended(client, waiting)
    assert canceled["Status"] == "canceled"
    assert (await client.post(f"/tasks/cancel?id={waiting}")).body == {"ok": "1"}
    assert await ended(client, waiting) == canceled
    (run,) = (await client.get(f"/tasks/runs?task_id={waiting}")).body
    assert (run["nodeKey"], run["status"]) == ("w", "canceled")


@pytest.mark.proves("I11")
async def test_cancel_reaches_a_worker_during_a_call(client: Client, worker: Worker) -> None:
    hang = {"start": "h", "nodes": {"h": {"kind": "executor", "service": "hang"}}}
    task_id = await started(client, hang, {}, "hangs")
    while not worker.load:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert (await client.post(f"/tasks/cancel?id={task_id}")).body == {"ok": "1"}
    async with asyncio.timeout(5):
        while worker.load:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    record = await client.hw.run(task_id.removeprefix("task-")).wait_for_end()
    assert record.run.status is RunStatus.CANCELED
