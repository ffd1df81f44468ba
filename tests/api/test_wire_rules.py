"""Rules of the root paths that the first flow centre left open (WIRE, R5.4, R5.15)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headway.worker.program import Worker
from headway.worker.service_registry import ServiceError, Services
from tests.api.client import Client
from tests.api.test_wire_v1 import ended, published, started
from tests.engine.flow.raw_worker import WorkerRequest, encode_response, raw_worker

pytestmark = pytest.mark.backend("sqlite")

WAIT = {"start": "w", "nodes": {"w": {"kind": "wait_event", "params": {"signal_key": "go"}}}}


def call_work(**fields: Any) -> dict[str, Any]:
    """Return a definition with one node that calls `work`."""
    node = {"kind": "executor", "service": "work", "post": {"output_key": "out"}}
    return {"start": "a", "nodes": {"a": node | fields}}


def put_text(text: str) -> dict[str, Any]:
    """Return a definition that puts `text` into its shared state."""
    choose = {"kind": "choice", "params": {"said": text}, "prep": {"input_key": "$params.said"}}
    return {"start": "say", "nodes": {"say": choose | {"post": {"output_key": "said"}}}}


async def node_runs(client: Client, task_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await client.get(f"/tasks/runs?task_id={task_id}")).body
    return rows


# Flows of the same name.


@pytest.mark.proves("R5.15")
async def test_programs_that_use_the_same_flow_name_run_their_own_definitions(
    client: Client,
) -> None:
    ids = [await published(client, put_text(text), "demo") for text in ("ann", "bob", "cleo")]
    assert len(set(ids)) == 3
    for flow_id, text in zip(ids, ("ann", "bob", "cleo"), strict=True):
        task = await client.post("/tasks", {"FlowID": flow_id})
        shared = json.loads((await ended(client, task["id"]))["SharedJSON"])
        assert shared == {"said": text}
    flows = (await client.get("/api/flows"))["flows"]
    assert [flow["id"] for flow in sorted(flows, key=lambda flow: flow["created_at"])] == ids
    assert all(flow["name"].startswith("demo") for flow in flows)
    assert flows[0]["name"] == "demo"


@pytest.mark.proves("R5.15")
async def test_flows_of_the_api_and_the_root_paths_may_have_the_same_name(client: Client) -> None:
    await client.call("PUT", "/api/flows/orders", put_text("from the api"))
    theirs = await published(client, put_text("program"), "orders")
    assert (await client.get("/api/flows/orders"))["id"] != theirs
    own = await client.post("/api/flows/orders/tasks", {})
    assert await client.hw.run(own["id"]).result(20) == {"said": "from the api"}
    empty = [(await client.post("/flows", {"Name": "empty"}))["id"] for _ in range(2)]
    assert len(set(empty)) == 2


@pytest.mark.proves("R5.15")
async def test_flow_with_a_long_name_that_is_already_taken_is_still_created(client: Client) -> None:
    name = "n" * 255
    responses = [await client.post("/flows", {"Name": f" {name} "}) for _ in range(2)]
    assert [response.status for response in responses] == [200, 200]
    assert responses[0]["id"] != responses[1]["id"]


# The workers that are called.


async def answer_garbage(
    _: WorkerRequest, __: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\noops!")


async def answer_without_http(
    _: WorkerRequest, __: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(b"this is not HTTP\r\n\r\n")


async def answer_error(
    _: WorkerRequest, __: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(encode_response({"error": "out of paper"}))


async def hang_up(_: WorkerRequest, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()
    raise ConnectionResetError


async def answer_done(
    _: WorkerRequest, __: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(encode_response({"result": "done"}))


FAILING = {
    "1-garbage": answer_garbage,
    "2-no-http": answer_without_http,
    "3-error": answer_error,
    "4-hangs-up": hang_up,
}
DEAD = "http://127.0.0.1:1"


@asynccontextmanager
async def registered(client: Client, worker_id: str, serve: Any) -> AsyncIterator[None]:
    async with raw_worker(serve) as address:
        await client.post("/register", {"id": worker_id, "url": address, "services": ["work"]})
        yield


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("fields", [{}, {"max_attempts": 0}], ids=["absent", "0"])
@pytest.mark.parametrize("name", [*FAILING, "dead"])
async def test_next_live_worker_is_called_when_one_fails(
    client: Client, name: str, fields: dict[str, int]
) -> None:
    """Workers are called in order of load, so the failing one is called first."""
    async with registered(client, "good", answer_done):
        await client.post("/heartbeat", {"id": "good", "load": 5})
        async with registered(client, name, FAILING.get(name, answer_done)):
            if name == "dead":
                body = {"id": name, "url": DEAD, "services": ["work"]}
                await client.post("/register", body)
            task_id = await started(client, call_work(weighted_by_load=True, **fields), {})
            task = await ended(client, task_id)
    (run,) = await node_runs(client, task_id)
    assert (run["errorText"], run["attemptNo"], run["workerId"]) == ("", 1, "good")
    assert (task["Status"], json.loads(task["SharedJSON"])) == ("completed", {"out": "done"})


@pytest.mark.proves("R5.4")
async def test_max_attempts_limits_how_many_workers_are_called(client: Client) -> None:
    called: list[str] = []

    def recording(name: str) -> Any:
        async def fail(
            _: WorkerRequest, __: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            called.append(name)
            writer.write(encode_response({"error": f"{name} is out of paper"}))

        return fail

    async with (
        registered(client, "c", recording("c")),
        registered(client, "a", recording("a")),
        registered(client, "b", recording("b")),
    ):
        for worker_id, load in (("a", 3), ("b", 1), ("c", 2)):
            await client.post("/heartbeat", {"id": worker_id, "load": load})
        for fields, expected in (({"max_attempts": 2}, ["b", "c"]), ({}, ["b", "c", "a"])):
            called.clear()
            task_id = await started(client, call_work(weighted_by_load=True, **fields), {})
            assert (await ended(client, task_id))["Status"] == "failed"
            assert called == expected
            (run,) = await node_runs(client, task_id)
            last = expected[-1]
            assert (run["errorText"], run["workerId"]) == (f"{last} is out of paper", last)


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("1-garbage", "bad_answer: HTTP 500"),
        ("2-no-http", "bad_answer: the answer is not valid HTTP"),
        ("3-error", "out of paper"),
        ("4-hangs-up", "unreachable: "),
        ("dead", "unreachable: cannot connect"),
    ],
)
async def test_node_run_errors_distinguish_no_connection_invalid_answer_and_reported_error(
    client: Client, name: str, error: str
) -> None:
    async with registered(client, name, FAILING.get(name, answer_done)):
        if name == "dead":
            await client.post("/register", {"id": name, "url": DEAD, "services": ["work"]})
        task_id = await started(client, call_work(), {})
        await ended(client, task_id)
    (run,) = await node_runs(client, task_id)
    assert run["errorText"].startswith(error)
    assert (run["status"], run["workerId"]) == ("error", name)


@pytest.mark.proves("R5.4")
async def test_unreachable_worker_does_not_hide_the_error_reported_by_another_worker(
    client: Client,
) -> None:
    async with registered(client, "1-error", answer_error):
        await client.post("/register", {"id": "2-dead", "url": DEAD, "services": ["work"]})
        task_id = await started(client, call_work(weighted_by_load=True), {})
        await ended(client, task_id)
    (run,) = await node_runs(client, task_id)
    assert (run["errorText"], run["workerId"]) == ("out of paper", "1-error")


# Fields of other dialects.


def with_fields(**fields: Any) -> dict[str, Any]:
    return {"start": "a", "nodes": {"a": {"kind": "choice", **fields}}}


@pytest.mark.proves("R5.15")
@pytest.mark.parametrize(
    "field",
    [
        {"exec_type": "local_func"},
        {"func": "shout"},
        {"script": "echo"},
        {"parallel_execs": [{"service": "work"}]},
        {"foreach_execs": [{}]},
        {"subflow_execs": {"a": 1}},
        {"other_execs": [1]},
    ],
    ids=lambda field: next(iter(field)),
)
async def test_field_that_would_change_the_meaning_of_a_node_is_refused_by_every_api(
    client: Client, field: dict[str, Any]
) -> None:
    flow = await client.post("/flows", {"Name": "demo"})
    (name,) = field
    inner = with_fields(**field)
    nested = {"start": "s", "nodes": {"s": {"kind": "subflow", "subflow": inner}}}
    for definition, location in (
        (inner, f"nodes.a.{name}"),
        (nested, f"nodes.s.subflow.nodes.a.{name}"),
    ):
        body = {"FlowID": flow["id"], "DefinitionJSON": json.dumps(definition)}
        refused = await client.post("/flows/version", body)
        assert (refused.status, [error["path"] for error in refused["errors"]]) == (
            422,
            [location],
        )
        for method, path in (("PUT", "/api/flows/demo"), ("POST", "/api/flow-check")):
            refused = await client.call(method, path, definition)
            assert (refused.status, [error["path"] for error in refused["errors"]]) == (
                422,
                [location],
            )
    nothing = await client.post("/tasks", {"FlowID": flow["id"]})
    assert (nothing.status, nothing.body) == (400, {"error": "no start"})


@pytest.mark.proves("R5.15")
async def test_unknown_fields_only_add_warnings_to_the_answer(
    client: Client,
) -> None:
    flow = await client.post("/flows", {"Name": "demo"})
    odd = with_fields(colour="red", exec_type="http", func="") | {"note": "n"}
    body = {"FlowID": flow["id"], "DefinitionJSON": json.dumps(odd)}
    made = await client.post("/flows/version", body)
    assert (made.status, list(made.body)) == (200, ["id", "warnings"])
    fields = {warning["path"] for warning in made["warnings"]}
    assert fields == {"note", "nodes.a.colour"}
    assert all("no effect" in warning["problem"] for warning in made["warnings"])
    api = await client.call("PUT", "/api/flows/other", odd)
    assert {warning["path"] for warning in api["warnings"]} > fields
    # The API warns of a service without a worker. The answer of the root paths does not.
    plain = body | {"DefinitionJSON": json.dumps(call_work())}
    assert list((await client.post("/flows/version", plain)).body) == ["id"]


# Cancelled tasks.


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("is_pending", [True, False], ids=["pending", "waiting"])
async def test_canceled_task_and_its_node_run_have_the_action_canceled(
    client: Client, is_pending: bool
) -> None:
    if is_pending:
        await client.hw.lanes.set("flow", max_concurrent=0)
    task_id = await started(client, WAIT, {})
    status = "pending" if is_pending else "running"
    while (await client.get(f"/tasks/get?id={task_id}"))["Status"] != status:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert (await client.post(f"/tasks/cancel?id={task_id}")).body == {"ok": "1"}
    task = await ended(client, task_id)
    assert (task["Status"], task["LastAction"]) == ("canceled", "canceled")
    (run,) = await node_runs(client, task_id)
    assert (run["nodeKey"], run["status"], run["action"]) == ("w", "canceled", "canceled")
    assert (await client.get(f"/api/tasks/{task_id}"))["last_action"] == "canceled"
    (row,) = (await client.get(f"/api/tasks/{task_id}/node-runs"))["node_runs"]
    assert row["action"] == "canceled"


# The order of node runs.


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    services = Services()

    @services
    async def name(text: Any) -> Any:
        return text

    @services
    async def fail() -> None:
        raise ServiceError("broken")

    made = Worker(services, url=DEAD, registry_url=client.address, drain_s=0)
    async with made as worker:
        await worker.wait_until_registered()
        yield worker


@pytest.mark.proves("R5.6")
@pytest.mark.parametrize("mode", ["sequential", "concurrent"])
@pytest.mark.parametrize("kind", ["parallel", "foreach"])
async def test_collecting_node_run_is_listed_after_its_branches(
    client: Client, worker: Worker, kind: str, mode: str
) -> None:
    fan: dict[str, Any] = {"kind": kind, "parallel_mode": mode, "prep": {"input_key": "$params.x"}}
    fan["post"] = {"output_key": "all"}
    fan |= {"service": "name"} if kind == "foreach" else {"parallel_services": ["name"] * 3}
    end = {"kind": "choice"}
    definition = {
        "start": "p",
        "nodes": {"p": fan, "q": fan, "end": end},
        "edges": [{"from": "p", "to": "q"}, {"from": "q", "to": "end"}],
    }
    task_id = await started(client, definition, {"x": [1, 2, 3]})
    await ended(client, task_id)
    runs = await node_runs(client, task_id)
    assert [run["nodeKey"] for run in runs] == ["p"] * 4 + ["q"] * 4 + ["end"]
    outputs = [json.loads(runs[at]["execOutputJson"]) for at in (3, 7)]
    branches = [json.loads(run["execOutputJson"]) for run in runs[:3]]
    assert outputs == [branches, branches]
    rows = (await client.get(f"/api/tasks/{task_id}/node-runs"))["node_runs"]
    assert [row["branch"] for row in rows if row["node"] == "p"][-1] is None


# Ids.


@pytest.mark.proves("R5.6")
async def test_api_accepts_the_id_format_of_the_root_paths(client: Client) -> None:
    flow_id = await published(client, WAIT, "waits")
    task_id = (await client.post("/tasks", {"FlowID": flow_id}))["id"]
    run_id = task_id.removeprefix("task-")
    while (await client.get(f"/api/tasks/{task_id}"))["waits_for"] != "event":  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert (await client.get(f"/api/tasks/{task_id}"))["id"] == run_id
    assert (await client.get(f"/api/runs/{task_id}"))["id"] == run_id
    assert (await client.get(f"/api/runs/{task_id}/explain")).status == 200
    assert (await client.get(f"/api/tasks/{task_id}/node-runs")).status == 200
    signal = await client.post(f"/api/tasks/{task_id}/signal", {"key": "go", "value": 5})
    assert (signal.status, signal["id"]) == (202, run_id)
    await ended(client, task_id)
    rerun = await client.post(f"/api/tasks/{task_id}/rerun", {"node": "w"})
    assert (rerun.status, rerun["rerun_of"]) == (201, run_id)
    cancelled = await client.post(f"/api/tasks/task-{rerun['id']}/cancel")
    assert cancelled.status in (202, 409)  # The rerun has its signal already, and may have ended.
    lost = await client.get("/api/tasks/task-none")
    assert (lost.status, lost["code"]) == (404, "run_not_found")


@pytest.mark.proves("R5.6")
async def test_api_accepts_flow_ids_and_version_ids_in_place_of_flow_names(client: Client) -> None:
    flow_id = await published(client, put_text("one"), "demo")
    body = {"FlowID": flow_id, "DefinitionJSON": json.dumps(put_text("two")), "Version": 2}
    assert (await client.post("/flows/version", body)).status == 200
    first_id = f"ver-{flow_id.removeprefix('flow-')}-1"
    assert (await client.get(f"/api/flows/{flow_id}"))["name"] == "demo"
    shown = (await client.get(f"/api/flows/{first_id}"))["definition"]
    assert shown["nodes"]["say"]["params"] == {"said": "one"}
    assert len((await client.get(f"/api/flows/{flow_id}/versions"))["versions"]) == 2
    assert (await client.get(f"/api/flows/{flow_id}/graph")).status == 200
    for name, text in ((flow_id, "two"), (first_id, "one")):
        task = await client.post(f"/api/flows/{name}/tasks", {})
        assert (task.status, task["flow"]) == (201, "demo")
        assert await client.hw.run(task["id"]).result(20) == {"said": text}
    assert len((await client.get(f"/api/tasks?flow={flow_id}"))["tasks"]) == 2
    # The name of a flow has precedence over an id.
    await client.call("PUT", "/api/flows/flow-mine", put_text("mine"))
    assert (await client.get("/api/flows/flow-mine"))["name"] == "flow-mine"
    assert (await client.get("/api/flows/flow-none")).status == 404
