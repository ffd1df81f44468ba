"""Invalid, excessive and late requests to the root paths (R5.6, I15, I20)."""

import json
from itertools import pairwise
from typing import Any

import pytest

from headway.api.http import cursor
from headway.api.routes import v1_routes as wire_v1
from headway.core.command.run import inbox
from tests.api.client import Client
from tests.api.test_wire_v1 import END, ended, published, started
from tests.engine.flow.scenes import wait_until_parked

pytestmark = pytest.mark.backend("sqlite")

WAIT = {"start": "w", "nodes": {"w": {"kind": "wait_event", "params": {"signal_key": "go"}}}}
JSON = {"content-type": "application/json"}


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"Name": "\xff\xfe"}', "body"),
        (b'{"Name": "a", "name": "b"}', "name"),
        (b'{"Name": "a", "Name": "b"}', "body"),
        (b'{"Name": NaN}', "body"),
        (b'["Name"]', "body"),
        (b"", "body"),
    ],
)
async def test_ambiguous_or_invalid_body_is_refused(
    client: Client, body: bytes, field: str
) -> None:
    answer = await client.send("POST", "/flows", body, JSON)
    assert (answer.status, answer["error"]) == (400, "bad request")
    assert answer["detail"].startswith(f"{field} ")
    assert (await client.get("/api/flows"))["flows"] == []


@pytest.mark.proves("R5.8")
@pytest.mark.parametrize(
    ("load", "shown"),
    [(b"-5", 0), (b"1e30", 1_000_000_000), (b"9" * 300, 1_000_000_000), (b"2.9", 2)],
)
async def test_reported_load_is_clamped_to_its_range(
    client: Client, load: bytes, shown: int
) -> None:
    await client.post("/register", {"id": "w", "url": "http://127.0.0.1:9", "services": ["sum"]})
    body = b'{"id": "w", "load": %s}' % load
    assert (await client.send("POST", "/heartbeat", body, JSON)).body == {"ok": "1"}
    assert [worker["Load"] for worker in (await client.get("/list")).body] == [shown]


@pytest.mark.proves("I15")
@pytest.mark.parametrize("load", [b'"3"', b"true", b"null", b"[1]", b"NaN", b"1e999"])
async def test_load_that_is_not_a_number_is_refused(client: Client, load: bytes) -> None:
    await client.post("/register", {"id": "w", "url": "http://127.0.0.1:9", "services": ["sum"]})
    answer = await client.send("POST", "/heartbeat", b'{"id": "w", "load": %s}' % load, JSON)
    assert (answer.status, answer["error"]) == (400, "bad request")
    assert [worker["Load"] for worker in (await client.get("/list")).body] == [0]


@pytest.mark.proves("R5.6")
async def test_a_signal_to_a_finished_task_changes_nothing(client: Client) -> None:
    task_id = await started(client, {"start": "e", "nodes": {"e": END}}, {})
    task = await ended(client, task_id)
    answer = await client.post("/tasks/signal", {"task_id": task_id, "key": "go", "value": 1})
    assert (answer.status, answer.body) == (404, {"error": "not found"})
    assert await ended(client, task_id) == task


@pytest.mark.proves("I20")
async def test_full_lane_and_full_inbox_are_429(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "UNREAD_COUNT_MAX", 1)
    await client.hw.lanes.set("flow", max_concurrent=0, max_queued=1)
    task_id = await started(client, WAIT, {})
    flow_id = await published(client, WAIT, "more")
    too_many = await client.post("/tasks", {"FlowID": flow_id})
    signal = {"task_id": task_id, "key": "go", "value": 1}
    assert (await client.post("/tasks/signal", signal)).status == 200
    unread = await client.post("/tasks/signal", signal)
    for answer in (too_many, unread):
        assert answer.status == 429
        assert int(answer.headers["retry-after"]) > 0
        assert answer["error"]


@pytest.mark.proves("R5.6")
async def test_parked_task_is_listed_first_after_it_is_canceled(
    client: Client,
) -> None:
    tasks = [await started(client, WAIT, {}) for _ in range(3)]
    for task_id in tasks:
        await wait_until_parked(client.hw, task_id.removeprefix("task-"))

    async def list_task_ids() -> list[Any]:
        return [task["ID"] for task in (await client.get("/tasks")).body]

    await client.post(f"/tasks/cancel?id={tasks[0]}")
    assert (await list_task_ids())[0] == tasks[0]
    await client.post(f"/tasks/cancel?id={tasks[1]}")
    assert (await list_task_ids())[:2] == [tasks[1], tasks[0]]
    canceled = await ended(client, tasks[1])
    record = await client.hw.run(tasks[1].removeprefix("task-")).wait_for_end()
    assert record.run.ended_at is not None
    assert canceled["UpdatedAt"] == record.run.ended_at // 1_000_000


@pytest.mark.proves("R5.6")
async def test_long_list_of_node_runs_links_to_the_remaining_node_runs(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"n{at}" for at in range(5)]
    edges = [{"from": key, "to": next_key} for key, next_key in pairwise(keys)]
    flow = {"start": "n0", "nodes": dict.fromkeys(keys, END), "edges": edges}
    task_id = await started(client, flow, {})
    await ended(client, task_id)
    whole = await client.get(f"/tasks/runs?task_id={task_id}")
    assert [row["nodeKey"] for row in whole.body] == keys
    assert "link" not in whole.headers
    monkeypatch.setattr(wire_v1, "ROW_COUNT_MAX", 3)
    cut = await client.get(f"/tasks/runs?task_id={task_id}")
    assert [row["nodeKey"] for row in cut.body] == keys[:3]
    rest = await client.get(cut.headers["link"].split(">")[0].removeprefix("<"))
    assert [row["node"] for row in rest["node_runs"]] == keys[3:]


@pytest.mark.proves("I20")
async def test_lists_of_tasks_and_node_runs_are_limited_in_bytes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node runs link to their next page; the task list has the last updated tasks (R5.6)."""
    keys = [f"n{at}" for at in range(5)]
    edges = [{"from": key, "to": next_key} for key, next_key in pairwise(keys)]
    node = END | {"prep": {"input_key": "$params.text"}}
    flow = {"start": "n0", "nodes": dict.fromkeys(keys, node), "edges": edges}
    tasks = [await started(client, flow, {"text": "x" * 10_000}) for _ in range(3)]
    for task_id in tasks:
        await ended(client, task_id)
    row_size = len(json.dumps((await client.get(f"/tasks/runs?task_id={tasks[0]}")).body[0]))
    monkeypatch.setattr(cursor, "PAGE_BYTE_COUNT_MAX", 5 * row_size // 2)
    cut = await client.get(f"/tasks/runs?task_id={tasks[0]}")
    assert [row["nodeKey"] for row in cut.body] == keys[:2]
    rest = await client.get(cut.headers["link"].split(">")[0].removeprefix("<"))
    assert [row["node"] for row in rest["node_runs"]] == keys[2:4]
    listed = (await client.get("/tasks")).body
    monkeypatch.setattr(cursor, "PAGE_BYTE_COUNT_MAX", 5 * len(json.dumps(listed[0])) // 2)
    assert [task["ID"] for task in (await client.get("/tasks")).body] == [tasks[2], tasks[1]]
    monkeypatch.setattr(cursor, "PAGE_BYTE_COUNT_MAX", 1)
    assert len((await client.get(f"/tasks/runs?task_id={tasks[0]}")).body) == 1
    assert len((await client.get("/tasks")).body) == 1
