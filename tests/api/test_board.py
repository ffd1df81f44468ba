"""The board over HTTP: lanes, keys, jobs, and the snapshot."""

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
async def test_a_limit_is_changed_and_guarded_by_its_revision(client: Client) -> None:
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
async def test_who_changes_nothing_of_a_lane_makes_none(client: Client, body: Any) -> None:
    before = (await client.get("/api/lanes"))["lanes"]
    for name in ("new", "main"):
        refused = await client.call("PATCH", f"/api/lanes/{name}", body)
        assert (refused.status, refused["place"]) == (422, "body")
        assert "say at least one of max_concurrent, max_queued, paused" in refused["detail"]
    assert (await client.get("/api/lanes"))["lanes"] == before


@pytest.mark.proves("R1.7")
async def test_a_row_is_saved_read_locked_and_deleted(client: Client) -> None:
    saved = await client.call("PUT", "/api/keys/ann", {"job": "stay", "params": {}})
    assert (saved.status, saved["key"], saved["job"]) == (200, "ann", "stay")
    assert [row["key"] for row in (await client.get("/api/keys"))["keys"]] == ["ann"]
    run_id = await client.submitted("stay", key="ann")
    for method, body in (("PUT", {"job": "echo"}), ("DELETE", None)):
        locked = await client.call(method, "/api/keys/ann", body)
        assert (locked.status, locked["code"]) == (409, "key_locked")
        assert locked["active_run_id"] == run_id
    await client.post(f"/api/runs/{run_id}/cancel")
    await client.ended(run_id)
    assert (await client.call("DELETE", "/api/keys/ann")).status == 204
    assert (await client.call("DELETE", "/api/keys/ann")).status == 404


async def test_jobs_are_listed_with_the_schema_of_their_parameters(client: Client) -> None:
    jobs = {job["name"]: job for job in (await client.get("/api/jobs"))["jobs"]}
    assert sorted(jobs) == ["ask", "echo", "listen", "shout", "stay"]
    assert jobs["echo"]["parameters"]["properties"]["said"]["default"] is None


@pytest.mark.proves("R1.10")
async def test_the_snapshot_says_up_to_which_event_it_is_true(client: Client) -> None:
    run_id = await client.submitted("stay", key="ann")
    state = await client.get("/api/state")
    assert [run["id"] for run in state["runs"]] == [run_id]
    events = await client.get(f"/api/events?after={state['seq']}")
    assert all(event["seq"] > state["seq"] for event in events["events"])


@pytest.mark.proves("R1.10")
async def test_the_snapshot_has_the_last_run_of_each_saved_key_and_who_works(
    client: Client,
) -> None:
    for key in ("ann", "bob", "cem"):
        await client.call("PUT", f"/api/keys/{key}", {"job": "echo", "params": {}})
    await client.ended(await client.submitted("echo", key="ann"))
    old = await client.submitted("echo", key="ann")
    await client.ended(old)
    at_work = await client.submitted("stay", key="bob")
    state = await client.get("/api/state")
    assert sorted((run["key"], run["id"]) for run in state["last_runs"]) == [
        ("ann", old),
        ("bob", at_work),
    ]
    assert [instance["pid"] for instance in state["instances"]] == [os.getpid()]
    await client.hw.workers.register("w", "http://127.0.0.1:9", ["sum"])
    state, listed = await client.get("/api/state"), await client.get("/api/workers")
    assert state["workers"] == listed["workers"]


@pytest.mark.proves("I13")
@pytest.mark.parametrize("is_before", [True, False])
async def test_a_worker_that_comes_meanwhile_is_in_the_snapshot_or_in_an_event_after_it(
    client: Client, monkeypatch: pytest.MonkeyPatch, is_before: bool
) -> None:
    reader = client.hw.store.runs
    look = reader.snapshot

    async def look_while_one_comes() -> Snapshot:
        found = None if is_before else await look()
        await client.hw.workers.register("w", "http://127.0.0.1:9", ["sum"])
        return found or await look()

    monkeypatch.setattr(reader, "snapshot", look_while_one_comes)
    state = await client.get("/api/state")
    later = await client.get(f"/api/events?after={state['seq']}")
    told = [worker["id"] for worker in state["workers"]]
    told += [one["payload"]["id"] for one in later["events"] if one["type"] == "worker_changed"]
    assert "w" in told


@pytest.mark.proves("R1.10")
async def test_others_have_their_turn_while_a_great_snapshot_is_written() -> None:
    runs = [RunRecord(a_run(), EMPTY_OBJECT)] * 1_000
    found = Snapshot(seq=1, epoch=0, lanes=(), keys=(), runs=runs, last_runs=(), instances=())
    writing = asyncio.create_task(encode_state(found, ()))
    turn_count = 0
    while not writing.done():
        turn_count += 1
        await asyncio.sleep(0)
    assert turn_count >= 10
    assert len(json.loads(await writing)["runs"]) == 1_000


@pytest.mark.proves("R5.10")
async def test_the_programs_at_work_are_listed_with_what_they_hold(client: Client) -> None:
    run_id = await client.submitted("stay", key="ann")
    await client.begun(run_id)
    (instance,) = (await client.get("/api/instances"))["instances"]
    assert (instance["pid"], instance["run_ids"]) == (os.getpid(), [run_id])
    why = await client.get(f"/api/runs/{run_id}/explain")
    assert why["holder_ids"] == [instance["id"]]


@pytest.mark.proves("R3.3")
async def test_a_lane_is_cleared_and_what_is_active_goes_on(client: Client) -> None:
    await client.call("PATCH", "/api/lanes/narrow", {"max_concurrent": 1})
    run_ids = [await client.submitted("stay", lane="narrow") for _ in range(3)]
    await client.begun(run_ids[0])
    cleared = await client.post("/api/lanes/narrow/clear")
    assert (cleared.status, cleared.body) == (200, {"canceled_count": 2})
    lane = await client.get("/api/lanes/narrow")
    assert (lane["held_count"], lane["queued_count"]) == (1, 0)
    missing = await client.post("/api/lanes/nowhere/clear")
    assert (missing.status, missing["code"]) == (404, "lane_not_found")


@pytest.mark.proves("R7.10")
async def test_a_key_is_stopped_with_all_its_runs_and_none_of_them_starts(client: Client) -> None:
    active = await client.submitted("stay", key="ann")
    await client.begun(active)
    queued = [await client.submitted("echo", key="ann", on_conflict="enqueue") for _ in range(2)]
    wanted = {"key": "ann", "reason": "enough", "files": "delete"}
    stopped = await client.post("/api/stop-key", wanted)
    answers = [(run["run_id"], run["answer"]) for run in stopped["runs"]]
    assert stopped.status == 202
    assert answers == [(queued[1], "canceled"), (queued[0], "canceled"), (active, "requested")]
    ended = [await client.ended(run_id) for run_id in (active, *queued)]
    assert {run["status"] for run in ended} == {"canceled"}
    assert [run["started_at"] is None for run in ended] == [False, True, True]
    assert (await client.post("/api/stop-key", {"key": "ann"})).body == {"runs": []}


async def test_a_key_that_ends_with_stop_keeps_its_address(client: Client) -> None:
    saved = await client.call("PUT", "/api/keys/ann/stop", {"job": "echo"})
    assert (saved.status, saved["key"]) == (200, "ann/stop")
    assert (await client.get("/api/keys/ann/stop"))["key"] == "ann/stop"


async def test_schedules_are_listed_with_their_next_slot_and_can_be_run_now(url: str) -> None:
    async with served(url, has_schedule=True) as client:
        async with client.streamed("/api/events?after=0&type=schedule_changed") as events:
            await anext(events)  # An instance has looked at it.
        (schedule,) = (await client.get("/api/schedules"))["schedules"]
        assert (schedule["name"], schedule["expression"]) == ("yearly", "0 0 1 1 *")
        assert schedule["next_fire_at"].endswith("-01-01T00:00:00.000000Z")
        ran = await client.post("/api/schedules/yearly/run")
        assert (ran.status, ran["job"], ran["key"], ran["lane"]) == (201, "echo", "yearly", "cron")
        assert (await client.ended(ran["id"]))["result"] == "happy new year"
        paused = await client.call("PATCH", "/api/schedules/yearly", {"paused": True})
        assert (paused.status, paused["paused"], paused["next_fire_at"]) == (200, True, None)
        assert (await client.get("/api/schedules"))["schedules"] == [paused.body]
        resumed = await client.call("PATCH", "/api/schedules/yearly", {"paused": False})
        assert (resumed["paused"], resumed["next_fire_at"]) == (False, schedule["next_fire_at"])
        absent = await client.call("PATCH", "/api/schedules/never", {"paused": True})
        assert (absent.status, absent["code"]) == (404, "schedule_not_found")
        missing = await client.post("/api/schedules/never/run")
        assert (missing.status, missing["code"]) == (404, "schedule_not_found")
