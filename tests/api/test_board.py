"""The board over HTTP: lanes, keys, jobs, and the snapshot."""

import pytest

from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")


async def test_r1_2_a_limit_is_changed_and_guarded_by_its_revision(client: Client) -> None:
    answer = await client.call("PATCH", "/api/lanes/main", {"max_concurrent": 5})
    assert (answer.status, answer["max_concurrent"]) == (200, 5)
    etag = answer.headers["etag"]
    changed = await client.call("PATCH", "/api/lanes/main", {"paused": True}, if_match=etag)
    assert (changed["paused"], changed["max_concurrent"]) == (True, 5)
    stale = await client.call("PATCH", "/api/lanes/main", {"paused": False}, if_match=etag)
    assert (stale.status, stale["code"]) == (412, "revision_conflict")
    lanes = {lane["name"]: lane for lane in (await client.get("/api/lanes"))["lanes"]}
    assert lanes["main"]["paused"] is True


async def test_r1_7_a_row_is_saved_read_locked_and_deleted(client: Client) -> None:
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
    assert sorted(jobs) == ["ask", "echo", "listen", "stay"]
    assert jobs["echo"]["parameters"]["properties"]["said"]["default"] is None


async def test_r1_10_the_snapshot_says_up_to_which_event_it_is_true(client: Client) -> None:
    run_id = await client.submitted("stay", key="ann")
    state = await client.get("/api/state")
    assert [run["id"] for run in state["runs"]] == [run_id]
    events = await client.get(f"/api/events?after={state['seq']}")
    assert all(event["seq"] > state["seq"] for event in events["events"])
