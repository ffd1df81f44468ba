"""Lanes, keys, jobs, schedules and the state snapshot over HTTP."""

import asyncio
import json
import os
from typing import Any

import pytest

from headway.api.routes.snapshot import encode_state
from headway.core.document import EMPTY_OBJECT
from headway.core.run.run import RunRecord
from headway.ports.run_reader import Snapshot
from headway.testing.builders import a_run
from tests.api.client import Client
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R1.2")
async def test_lane_limit_is_changed_and_guarded_by_its_revision(client: Client) -> None:
    answer = await client.call("PATCH", "/api/lanes/main", {"max_concurrent": 5})
    assert (answer.status, answer["max_concurrent"]) == (200, 5)
    etag = answer.headers["etag"]
    changed = await client.call("PATCH", "/api/lanes/main", {"paused": True}, if_match=etag)
    assert (changed["paused"], changed["max_concurrent"]) == (True, 5)
    stale = await client.call("PATCH", "/api/lanes/main", {"paused": False}, if_match=etag)
    assert (stale.status, stale["code"]) == (412, "revision_conflict")
    lanes = {lane["name"]: lane for lane in (await client.get("/api/lanes"))["lanes"]}
    assert lanes["main"]["paused"] is True


@pytest.mark.proves("I15")
@pytest.mark.parametrize("body", [{}, {"paused": None}])
async def test_empty_lane_change_is_refused_and_creates_no_lane(client: Client, body: Any) -> None:
    before = (await client.get("/api/lanes"))["lanes"]
    for name in ("new", "main"):
        refused = await client.call("PATCH", f"/api/lanes/{name}", body)
        assert (refused.status, refused["path"]) == (422, "body")
        assert "at least one of: max_concurrent, max_queued, paused" in refused["detail"]
    assert (await client.get("/api/lanes"))["lanes"] == before


@pytest.mark.proves("R1.7")
async def test_key_is_saved_read_locked_and_deleted(client: Client) -> None:
    saved = await client.call("PUT", "/api/keys/ann", {"job": "stay", "params": {}})
    assert (saved.status, saved["key"], saved["job"]) == (200, "ann", "stay")
    assert [row["key"] for row in (await client.get("/api/keys"))["keys"]] == ["ann"]
    run_id = await client.submit("stay", key="ann")
    for method, body in (("PUT", {"job": "echo"}), ("DELETE", None)):
        locked = await client.call(method, "/api/keys/ann", body)
        assert (locked.status, locked["code"]) == (409, "key_locked")
        assert locked["active_run_id"] == run_id
    await client.post(f"/api/runs/{run_id}/cancel")
    await client.wait_for_end(run_id)
    assert (await client.call("DELETE", "/api/keys/ann")).status == 204
    assert (await client.call("DELETE", "/api/keys/ann")).status == 404


async def test_jobs_are_listed_with_the_schema_of_their_parameters(client: Client) -> None:
    jobs = {job["name"]: job for job in (await client.get("/api/jobs"))["jobs"]}
    assert sorted(jobs) == ["ask", "echo", "listen", "shout", "stay"]
    assert jobs["echo"]["parameters"]["properties"]["said"]["default"] is None


@pytest.mark.proves("R1.10")
async def test_snapshot_contains_the_number_of_its_last_event(client: Client) -> None:
    run_id = await client.submit("stay", key="ann")
    state = await client.get("/api/state")
    assert [run["id"] for run in state["runs"]] == [run_id]
    events = await client.get(f"/api/events?after={state['seq']}")
    assert all(event["seq"] > state["seq"] for event in events["events"])


@pytest.mark.proves("R1.10")
async def test_snapshot_has_the_last_run_of_each_saved_key_the_instances_and_the_workers(
    client: Client,
) -> None:
    for key in ("ann", "bob", "cem"):
        await client.call("PUT", f"/api/keys/{key}", {"job": "echo", "params": {}})
    await client.wait_for_end(await client.submit("echo", key="ann"))
    old = await client.submit("echo", key="ann")
    await client.wait_for_end(old)
    running_id = await client.submit("stay", key="bob")
    state = await client.get("/api/state")
    assert sorted((run["key"], run["id"]) for run in state["last_runs"]) == [
        ("ann", old),
        ("bob", running_id),
    ]
    assert [instance["pid"] for instance in state["instances"]] == [os.getpid()]
    await client.hw.workers.register("w", "http://127.0.0.1:9", ["sum"])
    state, listed = await client.get("/api/state"), await client.get("/api/workers")
    assert state["workers"] == listed["workers"]


@pytest.mark.proves("I13")
@pytest.mark.parametrize("is_before", [True, False])
async def test_worker_registered_during_a_snapshot_is_in_it_or_in_a_later_event(
    client: Client, monkeypatch: pytest.MonkeyPatch, is_before: bool
) -> None:
    reader = client.hw.store.runs
    read_snapshot = reader.snapshot

    async def read_while_registering() -> Snapshot:
        snapshot = None if is_before else await read_snapshot()
        await client.hw.workers.register("w", "http://127.0.0.1:9", ["sum"])
        return snapshot or await read_snapshot()

    monkeypatch.setattr(reader, "snapshot", read_while_registering)
    state = await client.get("/api/state")
    later = await client.get(f"/api/events?after={state['seq']}")
    worker_ids = [worker["id"] for worker in state["workers"]]
    worker_ids += [
        event["payload"]["id"] for event in later["events"] if event["type"] == "worker_changed"
    ]
    assert "w" in worker_ids


@pytest.mark.proves("R1.10")
async def test_encoding_a_large_snapshot_does_not_block_the_event_loop() -> None:
    runs = [RunRecord(a_run(), EMPTY_OBJECT)] * 1_000
    snapshot = Snapshot(seq=1, epoch=0, lanes=(), keys=(), runs=runs, last_runs=(), instances=())
    writing = asyncio.create_task(encode_state(snapshot, []))
    turn_count = 0
    while not writing.done():
        turn_count += 1
        await asyncio.sleep(0)
    assert turn_count >= 10
    assert len(json.loads(await writing)["runs"]) == 1_000


@pytest.mark.proves("R5.10")
async def test_instances_are_listed_with_the_runs_they_hold(client: Client) -> None:
    run_id = await client.submit("stay", key="ann")
    await client.wait_until_running(run_id)
    (instance,) = (await client.get("/api/instances"))["instances"]
    assert (instance["pid"], instance["run_ids"]) == (os.getpid(), [run_id])
    why = await client.get(f"/api/runs/{run_id}/explain")
    assert why["holder_ids"] == [instance["id"]]


@pytest.mark.proves("R3.3")
async def test_clearing_a_lane_cancels_queued_runs_and_keeps_active_ones(client: Client) -> None:
    await client.call("PATCH", "/api/lanes/narrow", {"max_concurrent": 1})
    run_ids = [await client.submit("stay", lane="narrow") for _ in range(3)]
    await client.wait_until_running(run_ids[0])
    cleared = await client.post("/api/lanes/narrow/clear")
    assert (cleared.status, cleared.body) == (200, {"canceled_count": 2})
    lane = await client.get("/api/lanes/narrow")
    assert (lane["held_count"], lane["queued_count"]) == (1, 0)
    missing = await client.post("/api/lanes/nowhere/clear")
    assert (missing.status, missing["code"]) == (404, "lane_not_found")


@pytest.mark.proves("R7.10")
async def test_stopping_a_key_cancels_all_its_runs_and_starts_none(client: Client) -> None:
    active = await client.submit("stay", key="ann")
    await client.wait_until_running(active)
    queued = [await client.submit("echo", key="ann", on_conflict="enqueue") for _ in range(2)]
    body = {"key": "ann", "reason": "enough", "files": "delete"}
    stopped = await client.post("/api/stop-key", body)
    answers = [(run["run_id"], run["answer"]) for run in stopped["runs"]]
    assert stopped.status == 202
    assert answers == [(queued[1], "canceled"), (queued[0], "canceled"), (active, "requested")]
    ended = [await client.wait_for_end(run_id) for run_id in (active, *queued)]
    assert {run["status"] for run in ended} == {"canceled"}
    assert [run["started_at"] is None for run in ended] == [False, True, True]
    assert (await client.post("/api/stop-key", {"key": "ann"})).body == {"runs": []}


async def test_key_that_ends_with_slash_stop_can_be_saved_and_read(client: Client) -> None:
    saved = await client.call("PUT", "/api/keys/ann/stop", {"job": "echo"})
    assert (saved.status, saved["key"]) == (200, "ann/stop")
    assert (await client.get("/api/keys/ann/stop"))["key"] == "ann/stop"


async def test_schedules_are_listed_with_their_next_fire_time_and_can_be_run_now(url: str) -> None:
    async with served(url, has_schedule=True) as client:
        async with client.open_stream("/api/events?after=0&type=schedule_changed") as events:
            await anext(events)  # An instance has read the schedule.
        (schedule,) = (await client.get("/api/schedules"))["schedules"]
        assert (schedule["name"], schedule["expression"]) == ("yearly", "0 0 1 1 *")
        assert schedule["next_fire_at"].endswith("-01-01T00:00:00.000000Z")
        ran = await client.post("/api/schedules/yearly/run")
        assert (ran.status, ran["job"], ran["key"], ran["lane"]) == (201, "echo", "yearly", "cron")
        assert (await client.wait_for_end(ran["id"]))["result"] == "happy new year"
        paused = await client.call("PATCH", "/api/schedules/yearly", {"paused": True})
        assert (paused.status, paused["paused"], paused["next_fire_at"]) == (200, True, None)
        assert (await client.get("/api/schedules"))["schedules"] == [paused.body]
        resumed = await client.call("PATCH", "/api/schedules/yearly", {"paused": False})
        assert (resumed["paused"], resumed["next_fire_at"]) == (False, schedule["next_fire_at"])
        absent = await client.call("PATCH", "/api/schedules/never", {"paused": True})
        assert (absent.status, absent["code"]) == (404, "schedule_not_found")
        missing = await client.post("/api/schedules/never/run")
        assert (missing.status, missing["code"]) == (404, "schedule_not_found")
