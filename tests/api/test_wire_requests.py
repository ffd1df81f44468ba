"""The first centre's paths, and requests that are wrong, too many or too late (R5.6, I15, I20)."""

import json
from itertools import pairwise
from typing import Any

import pytest

from headway.api.http import cursor
from headway.api.routes import v1_routes as wire_v1
from headway.core.command.run import inbox
from tests.api.client import Client
from tests.api.test_wire_v1 import END, ended, published, started
from tests.engine.flow.scenes import parked

pytestmark = pytest.mark.backend("sqlite")

WAIT = {"start": "w", "nodes": {"w": {"kind": "wait_event", "params": {"signal_key": "go"}}}}
JSON = {"content-type": "application/json"}


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"Name": "\xff\xfe"}', "body"),
        (b'{"Name": "a", "name": "b"}', "name"),
        (b'{"Name": "a", "Name": "b"}', "body"),
        (b'{"Name": NaN}', "body"),
        (b'["Name"]', "body"),
        (b"", "body"),
    ],
)
async def test_a_body_that_cannot_be_read_in_one_way_alone_is_refused(
    client: Client, body: bytes, place: str
) -> None:
    answer = await client.send("POST", "/flows", body, JSON)
    assert (answer.status, answer["error"]) == (400, "bad request")
    assert answer["detail"].partition(":")[0] == place
    assert (await client.get("/api/flows"))["flows"] == []


@pytest.mark.proves("R5.8")
@pytest.mark.parametrize(
    ("load", "shown"),
    [(b"-5", 0), (b"1e30", 1_000_000_000), (b"9" * 300, 1_000_000_000), (b"2.9", 2)],
)
async def test_a_load_is_believed_as_far_as_it_can_be_true(
    client: Client, load: bytes, shown: int
) -> None:
    await client.post("/register", {"id": "w", "url": "http://127.0.0.1:9", "services": ["sum"]})
    body = b'{"id": "w", "load": %s}' % load
    assert (await client.send("POST", "/heartbeat", body, JSON)).body == {"ok": "1"}
    assert [one["Load"] for one in (await client.get("/list")).body] == [shown]


@pytest.mark.proves("I15")
@pytest.mark.parametrize("load", [b'"3"', b"true", b"null", b"[1]", b"NaN", b"1e999"])
async def test_a_load_that_is_no_number_is_refused(client: Client, load: bytes) -> None:
    await client.post("/register", {"id": "w", "url": "http://127.0.0.1:9", "services": ["sum"]})
    answer = await client.send("POST", "/heartbeat", b'{"id": "w", "load": %s}' % load, JSON)
    assert (answer.status, answer["error"]) == (400, "bad request")
    assert [one["Load"] for one in (await client.get("/list")).body] == [0]


@pytest.mark.proves("R5.6")
async def test_a_signal_to_a_finished_task_changes_nothing(client: Client) -> None:
    task_id = await started(client, {"start": "e", "nodes": {"e": END}}, {})
    task = await ended(client, task_id)
    answer = await client.post("/tasks/signal", {"task_id": task_id, "key": "go", "value": 1})
    assert (answer.status, answer.body) == (404, {"error": "not found"})
    assert await ended(client, task_id) == task


@pytest.mark.proves("I20")
async def test_more_than_a_lane_or_an_inbox_takes_is_told_to_come_again(
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
async def test_a_task_that_ended_while_nobody_held_it_is_the_last_updated(
    client: Client,
) -> None:
    tasks = [await started(client, WAIT, {}) for _ in range(3)]
    for task_id in tasks:
        await parked(client.hw, task_id.removeprefix("task-"))

    async def listed() -> list[Any]:
        return [one["ID"] for one in (await client.get("/tasks")).body]

    await client.post(f"/tasks/cancel?id={tasks[0]}")
    assert (await listed())[0] == tasks[0]
    await client.post(f"/tasks/cancel?id={tasks[1]}")
    assert (await listed())[:2] == [tasks[1], tasks[0]]
    canceled = await ended(client, tasks[1])
    record = await client.hw.run(tasks[1].removeprefix("task-")).wait_for_end()
    assert record.run.ended_at is not None
    assert canceled["UpdatedAt"] == record.run.ended_at // 1_000_000


@pytest.mark.proves("R5.6")
async def test_node_runs_that_find_no_room_are_said_to_be_elsewhere(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"n{at}" for at in range(5)]
    edges = [{"from": one, "to": other} for one, other in pairwise(keys)]
    flow = {"start": "n0", "nodes": dict.fromkeys(keys, END), "edges": edges}
    task_id = await started(client, flow, {})
    await ended(client, task_id)
    whole = await client.get(f"/tasks/runs?task_id={task_id}")
    assert [one["nodeKey"] for one in whole.body] == keys
    assert "link" not in whole.headers
    monkeypatch.setattr(wire_v1, "ROW_COUNT_MAX", 3)
    cut = await client.get(f"/tasks/runs?task_id={task_id}")
    assert [one["nodeKey"] for one in cut.body] == keys[:3]
    rest = await client.get(cut.headers["link"].split(">")[0].removeprefix("<"))
    assert [one["node"] for one in rest["node_runs"]] == keys[3:]


@pytest.mark.proves("I20")
async def test_answers_end_where_they_would_be_too_large(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5.6: of node runs the rest has an address; of tasks they are the ones that moved last."""
    keys = [f"n{at}" for at in range(5)]
    edges = [{"from": one, "to": other} for one, other in pairwise(keys)]
    node = END | {"prep": {"input_key": "$params.text"}}
    flow = {"start": "n0", "nodes": dict.fromkeys(keys, node), "edges": edges}
    tasks = [await started(client, flow, {"text": "x" * 10_000}) for _ in range(3)]
    for task_id in tasks:
        await ended(client, task_id)
    row_size = len(json.dumps((await client.get(f"/tasks/runs?task_id={tasks[0]}")).body[0]))
    monkeypatch.setattr(cursor, "PAGE_BYTE_COUNT_MAX", 5 * row_size // 2)
    cut = await client.get(f"/tasks/runs?task_id={tasks[0]}")
    assert [one["nodeKey"] for one in cut.body] == keys[:2]
    rest = await client.get(cut.headers["link"].split(">")[0].removeprefix("<"))
    assert [one["node"] for one in rest["node_runs"]] == keys[2:4]
    listed = (await client.get("/tasks")).body
    monkeypatch.setattr(cursor, "PAGE_BYTE_COUNT_MAX", 5 * len(json.dumps(listed[0])) // 2)
    assert [one["ID"] for one in (await client.get("/tasks")).body] == [tasks[2], tasks[1]]
    monkeypatch.setattr(cursor, "PAGE_BYTE_COUNT_MAX", 1)
    assert len((await client.get(f"/tasks/runs?task_id={tasks[0]}")).body) == 1
    assert len((await client.get("/tasks")).body) == 1
