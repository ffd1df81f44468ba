"""Bugs of earlier flow centres that headway must not have, tested over the wire (R5.6)."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headway.worker.program import Worker
from headway.worker.service_registry import Call, ServiceError, Services
from tests.api.client import Client
from tests.api.conftest import served
from tests.api.test_wire_v1 import ended, started

pytestmark = pytest.mark.backend("sqlite")

LEASE_TTL_S = 0.5


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with served(url, lease_ttl_s=LEASE_TTL_S) as client:
        yield client


class CountingWorker:
    """A worker that counts its calls and holds them until they may end."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.services = Services()
        self.calls: Counter[str] = Counter()
        self.generations: list[int] = []
        self.started = asyncio.Event()
        self.may_end = threading.Event()
        self.services(self.hold)
        self.services(self.fail)
        self.services(self.name_a_file)
        self.path = ""

    def hold(self, _input: Any, _params: dict[str, Any], call: Call) -> str:
        """Block in a thread, which is not interrupted when the caller stops waiting."""
        self.calls["hold"] += 1
        self.generations.append(call.generation)
        self.loop.call_soon_threadsafe(self.started.set)
        assert self.may_end.wait(30)
        return "held"

    async def fail(self) -> None:
        self.calls["fail"] += 1
        raise ServiceError("broken")

    async def name_a_file(self) -> dict[str, str]:
        return {"path": self.path, "file": f"file://{self.path}", "output": self.path}


@pytest.fixture
async def counting(client: Client) -> AsyncIterator[CountingWorker]:
    counting = CountingWorker()
    worker = Worker(
        counting.services, url="http://127.0.0.1:8080", registry_url=client.address, drain_s=0
    )
    async with worker:
        await worker.wait_until_registered()
        yield counting
        counting.may_end.set()


def executor(service: str, **more: Any) -> dict[str, Any]:
    return {"kind": "executor", "service": service, "post": {"output_key": service}, **more}


def flow(nodes: dict[str, Any], *edges: tuple[str, str]) -> dict[str, Any]:
    edge_list = [{"from": key, "action": "default", "to": next_key} for key, next_key in edges]
    return {"start": next(iter(nodes)), "nodes": nodes, "edges": edge_list}


async def node_run_rows(client: Client, task_id: str) -> list[str]:
    rows = (await client.get(f"/tasks/runs?task_id={task_id}")).body
    return [f"{row['nodeKey']} {row['status']}" for row in rows]


async def test_step_longer_than_the_lease_is_neither_repeated_nor_lost(
    client: Client, counting: CountingWorker
) -> None:
    """The holder renews the lease, however long a step takes (R5.5)."""
    task_id = await started(client, flow({"h": executor("hold")}), {})
    await counting.started.wait()
    shown = await client.get(f"/tasks/get?id={task_id}")
    owner, renewals = shown["LeaseOwner"], set[int]()
    while len(renewals) < 6:  # Renewals come every third of a lease, so it has expired by then.
        (instance,) = [
            instance for instance in await client.hw.store.runs.instances() if instance.id == owner
        ]
        renewals.add(instance.lease_expires_at)
        await asyncio.sleep(0.01)
    counting.may_end.set()
    task = await ended(client, task_id)
    assert (task["Status"], json.loads(task["SharedJSON"])) == ("completed", {"hold": "held"})
    assert (counting.calls["hold"], counting.generations) == (1, [1])
    assert await node_run_rows(client, task_id) == ["h ok"]


async def test_concurrent_signal_and_step_keep_both_writes(
    client: Client, counting: CountingWorker
) -> None:
    """Signals that race with steps are all in the shared state, and so are the outputs (R5.11)."""
    nodes = {f"n{at}": executor("echo", prep={"input_key": "$params.at"}) for at in range(8)}
    for at, node in enumerate(nodes.values()):
        node["post"] = {"output_key": f"out{at}"}
    keys = list(nodes)
    nodes["h"] = executor("hold")
    nodes["w"] = {"kind": "wait_event", "params": {"signal_key": "$shared.last"}}
    order = [*keys[:4], "h", *keys[4:], "w"]
    edges = tuple(pairwise(order))
    task_id = await started(client, flow({key: nodes[key] for key in order}, *edges), {"at": 1})

    async def signal(number: int) -> None:
        body = {"task_id": task_id, "key": f"in{number}", "value": number}
        assert (await client.post("/tasks/signal", body)).body == {"ok": "1"}

    await asyncio.gather(*(signal(number) for number in range(10)))
    await counting.started.wait()  # In the middle of a step.
    await asyncio.gather(*(signal(number) for number in range(10, 20)))
    counting.may_end.set()
    await asyncio.gather(*(signal(number) for number in range(20, 30)))
    await client.post("/tasks/signal", {"task_id": task_id, "key": "last", "value": True})
    task = await ended(client, task_id)
    shared = json.loads(task["SharedJSON"])
    assert shared == {
        **{f"out{at}": 1 for at in range(8)},
        **{f"in{number}": number for number in range(30)},
        "hold": "held",
        "last": True,
    }
    assert counting.calls["hold"] == 1


async def test_step_that_ends_after_a_cancel_does_not_overwrite_the_canceled_status(
    client: Client, counting: CountingWorker
) -> None:
    task_id = await started(client, flow({"h": executor("hold"), "e": executor("echo")}), {})
    await counting.started.wait()
    assert (await client.post(f"/tasks/cancel?id={task_id}")).body == {"ok": "1"}
    counting.may_end.set()
    task = await ended(client, task_id)
    assert (task["Status"], json.loads(task["SharedJSON"])) == ("canceled", {})
    assert await node_run_rows(client, task_id) == ["h canceled"]
    assert await ended(client, task_id) == task


async def test_waiting_or_pending_task_is_canceled_at_once(
    client: Client, counting: CountingWorker
) -> None:
    wait = {"kind": "wait_event", "params": {"signal_key": "$shared.go"}}
    waiting = await started(client, flow({"w": wait}), {}, "waits")
    await client.hw.lanes.set("flow", max_concurrent=0)
    pending = await started(client, flow({"w": wait}), {}, "waits")
    for task_id in (waiting, pending):
        await client.post(f"/tasks/cancel?id={task_id}")
        assert (await ended(client, task_id))["Status"] == "canceled"
        assert await node_run_rows(client, task_id) == ["w canceled"]


async def test_cancelling_a_finished_task_changes_nothing(
    client: Client, counting: CountingWorker
) -> None:
    task_id = await started(client, flow({"e": executor("echo")}), {})
    task = await ended(client, task_id)
    assert (await client.post(f"/tasks/cancel?id={task_id}")).body == {"ok": "1"}
    assert await ended(client, task_id) == task
    assert task["Status"] == "completed"
    assert await node_run_rows(client, task_id) == ["e ok"]


async def test_waiting_task_does_not_block_other_tasks(
    client: Client, counting: CountingWorker
) -> None:
    wait = flow({"w": {"kind": "wait_event", "params": {"signal_key": "$shared.go"}}})
    await client.hw.lanes.set("flow", max_concurrent=1)
    waiting = await started(client, wait, {}, "waits")
    others = [await started(client, flow({"e": executor("echo")}), {}) for _ in range(3)]
    for task_id in others:
        assert (await ended(client, task_id))["Status"] == "completed"
    assert (await client.get(f"/tasks/get?id={waiting}"))["Status"] == "running"


@pytest.mark.parametrize("strategy", ["fail_fast", "collect_errors", "ignore_errors"])
async def test_failing_parallel_branch_has_a_limited_number_of_retries(
    client: Client, counting: CountingWorker, strategy: str
) -> None:
    fan = {
        "kind": "parallel",
        "parallel_services": ["fail", "echo"],
        "parallel_mode": "concurrent",
        "failure_strategy": strategy,
        "max_retries": 2,
    }
    nodes = {"p": fan, "end": {"kind": "choice"}}
    task_id = await started(client, flow(nodes, ("p", "end")), {})
    assert (await ended(client, task_id))["Status"] == "completed"
    assert counting.calls["fail"] == 3
    rows = await node_run_rows(client, task_id)
    assert rows.count("p error") == 3


async def test_no_endpoint_reads_a_file_that_a_worker_names(
    client: Client, counting: CountingWorker, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret-content")
    counting.path = str(secret)
    registration = {"id": "w", "url": f"file://{secret}", "services": ["x"]}
    assert (await client.post("/register", registration)).status == 400
    task_id = await started(client, flow({"f": executor("name_a_file")}), {})
    assert (await ended(client, task_id))["Status"] == "completed"
    run_id = task_id.removeprefix("task-")
    answers = [
        await client.get(path)
        for path in (
            f"/tasks/get?id={task_id}",
            f"/tasks/runs?task_id={task_id}",
            f"/tasks/runs?task_id={secret}",
            f"/tasks/get?id={secret}",
            "/tasks",
            "/workers/list",
            f"/workers/list?service={secret}",
            f"/api/tasks/{run_id}",
            f"/api/tasks/{run_id}/node-runs",
            f"/api/runs/{run_id}",
            f"/api/runs/{run_id}/events",
        )
    ]
    assert str(secret) in answers[0]["SharedJSON"]
    assert not any("secret-content" in json.dumps(answer.body) for answer in answers)


@pytest.mark.proves("I15", "S6")
async def test_body_that_is_not_utf_8_is_refused(client: Client) -> None:
    headers = {"content-type": "application/json"}
    refused = await client.send("POST", "/flows", b'{"Name": "caf\xe9"}', headers)
    assert (refused.status, refused["error"]) == (400, "bad request")
    assert "UTF-8" in refused["detail"]
    assert (await client.get("/api/flows"))["flows"] == []


@pytest.mark.proves("I15")
async def test_field_in_two_spellings_is_refused(client: Client) -> None:
    refused = await client.post("/flows", {"Name": "a", "name": "b"})
    assert (refused.status, refused["error"]) == (400, "bad request")
    assert "occurs twice" in refused["detail"]
    assert (await client.get("/api/flows"))["flows"] == []
