"""Runs over HTTP: submit, read, list, cancel and send messages."""

from typing import Any

import pytest

from headway.services.context.run_context import RunContext
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R1.1")
async def test_run_is_accepted_executed_and_read(client: Client) -> None:
    answer = await client.post("/api/runs", {"job": "echo", "key": "ann", "params": {"said": [1]}})
    assert answer.status == 201
    assert answer.headers["location"] == f"/api/runs/{answer['id']}"
    run = await client.wait_for_end(answer["id"])
    assert (run["status"], run["state"], run["result"]) == ("succeeded", "Done", [1])
    assert (run["key"], run["job"], run["lane"], run["mode"]) == ("ann", "echo", "main", "start")
    assert run["params"] == {"said": [1]}
    assert run["queued_at"] <= run["started_at"] <= run["ended_at"]


@pytest.mark.proves("R1.1")
async def test_submission_answer_shows_a_run_that_started_at_once_as_running(
    client: Client,
) -> None:
    first = await client.post("/api/runs", {"job": "stay", "key": "ann"})
    assert (first["status"], first["state"], first["generation"]) == ("running", "Running", 1)
    assert first["started_at"] == first["queued_at"]
    again = {"job": "stay", "key": "ann", "on_conflict": "enqueue"}
    second = await client.post("/api/runs", again)
    assert (second["status"], second["started_at"]) == ("queued", None)
    # Other readers see the same values.
    for answer in (first, second):
        read = (await client.get(f"/api/runs/{answer['id']}")).body
        assert {**answer.body, "traceback": None} == read


@pytest.mark.proves("R7.11")
async def test_traceback_of_a_failed_run_is_shown_only_when_that_run_is_read(
    client: Client,
) -> None:
    async def fail(ctx: RunContext) -> None:
        raise ValueError("the feed is gone")

    client.hw.job(fail)
    run = await client.wait_for_end(await client.submit("fail", key="ann"))
    assert run["traceback"].endswith("ValueError: the feed is gone\n")
    assert run["traceback"].startswith("Traceback (most recent call last):\n")
    for path in ("/api/runs", "/api/state", "/api/board", f"/api/runs/{run['id']}/explain"):
        assert "Traceback" not in str((await client.get(path)).body), path


@pytest.mark.proves("R1.10")
async def test_every_view_of_a_run_has_the_time_of_its_last_change(client: Client) -> None:
    answer = await client.post("/api/runs", {"job": "echo", "key": "ann"})
    assert answer["updated_at"] == answer["queued_at"]
    run = await client.wait_for_end(answer["id"])
    assert run["updated_at"] == run["ended_at"]
    assert (await client.get("/api/runs"))["runs"][0]["updated_at"] == run["ended_at"]


@pytest.mark.proves("R2.8")
async def test_timed_out_run_names_the_limit_it_exceeded(client: Client) -> None:
    run = await client.wait_for_end(await client.submit("stay", key="ann", timeout_s=0.05))
    message = "executed for longer than its timeout_s, which is 0.05"
    assert (run["status"], run["error"]) == (
        "timed_out",
        {"code": "execution_timeout", "message": message},
    )
    explained = await client.get(f"/api/runs/{run['id']}/explain")
    assert message in explained["sentence"]


@pytest.mark.proves("R1.5")
async def test_busy_key_is_409_with_the_active_run(
    client: Client,
) -> None:
    first = await client.submit("stay", key="ann")
    second = await client.post("/api/runs", {"job": "stay", "key": "ann"})
    assert (second.status, second["code"], second["active_run_id"]) == (409, "key_busy", first)
    assert second.headers["content-type"] == "application/problem+json"
    listed = await client.get("/api/runs?key=ann")
    assert [run["id"] for run in listed["runs"]] == [first]


@pytest.mark.proves("I6")
async def test_same_idempotency_key_returns_the_same_run(client: Client) -> None:
    body = {"job": "echo", "params": {"said": 1}}
    first = await client.post("/api/runs", body, idempotency_key="one")
    again = await client.post("/api/runs", body, idempotency_key="one")
    assert first["id"] == again["id"]
    other = await client.post("/api/runs", {"job": "echo"}, idempotency_key="one")
    assert (other.status, other["code"], other["run_id"]) == (
        422,
        "idempotency_conflict",
        first["id"],
    )


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "job"),
        ({"job": 5}, "job"),
        ({"job": "echo", "mode": "again"}, "mode"),
        ({"job": "echo", "params": []}, "params"),
        ({"job": "echo", "timeout_s": 0}, "timeout_s"),
        ({"job": "echo", "timeout_s": True}, "timeout_s"),
        ({"job": "echo", "kye": "ann"}, "kye"),
        ({"job": "nope"}, "job"),
        ({"job": "echo", "params": {"siad": 1}}, "params.siad"),
        ({"job": "echo", "key": "  "}, "key"),
    ],
)
async def test_invalid_submission_is_refused_with_the_field(
    client: Client, body: Any, path: str
) -> None:
    answer = await client.post("/api/runs", body)
    assert (answer.status, answer["code"], answer["path"]) == (422, "invalid_input", path)
    assert (await client.get("/api/runs"))["runs"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        ("POST", "/api/runs", {}, "job is missing"),
        ("POST", "/api/runs", {"job": 5}, "job must be a string"),
        ("POST", "/api/runs", {"job": "echo", "parms": {}}, "parms is not a field of this request"),
        (
            "PATCH",
            "/api/lanes/main",
            {"max_concurrent": 1.5},
            "max_concurrent must be a whole number",
        ),
        ("PATCH", "/api/lanes/main", {"paused": 1}, "paused must be true or false"),
        ("GET", "/api/runs?limit=x", None, "limit must be a whole number"),
    ],
)
async def test_invalid_field_is_described_by_a_sentence(
    client: Client, method: str, path: str, body: Any, detail: str
) -> None:
    answer = await client.call(method, path, body)
    assert (answer.status, answer["detail"]) == (422, detail)


async def test_run_list_is_paged_newest_first_and_filtered(client: Client) -> None:
    ids = [await client.submit("echo", key=f"key {n}") for n in range(5)]
    await client.wait_for_end(ids[-1])
    first = await client.get("/api/runs?limit=3")
    assert [run["id"] for run in first["runs"]] == ids[:1:-1]
    rest = await client.get(f"/api/runs?limit=3&cursor={first['cursor']}")
    assert [run["id"] for run in rest["runs"]] == ids[1::-1]
    assert rest["cursor"] is None
    assert (await client.get("/api/runs?status=failed&status=queued"))["runs"] == []
    assert (await client.get("/api/runs?status=nope")).status == 422
    assert (await client.get("/api/runs?cursor=nope")).status == 422


@pytest.mark.proves("I11")
async def test_cancel_reports_its_effect_and_is_refused_after_the_run_has_ended(
    client: Client,
) -> None:
    run_id = await client.submit("stay", key="ann")
    queued = await client.submit("stay", key="ann", on_conflict="enqueue")
    answer = await client.post(f"/api/runs/{queued}/cancel")
    assert (answer.status, answer["answer"], answer["run"]["state"]) == (202, "canceled", "Idle")
    await client.wait_until_running(run_id)
    answer = await client.post(f"/api/runs/{run_id}/cancel", {"reason": "enough"})
    assert (answer.status, answer["answer"]) == (202, "requested")
    run = await client.wait_for_end(run_id)
    assert (run["state"], run["cancel"]["reason"]) == ("Cancelled", "enough")
    late = await client.post(f"/api/runs/{run_id}/cancel")
    assert (late.status, late["code"]) == (409, "run_not_active")


@pytest.mark.proves("I3")
async def test_messages_and_answers_reach_the_job(client: Client) -> None:
    run_id = await client.submit("listen")
    sent = {"content": "hello", "deliver": "when_listening"}
    assert (await client.post(f"/api/runs/{run_id}/messages", sent)).status == 202
    assert (await client.wait_for_end(run_id))["result"] == ["hello"]
    late = await client.post(f"/api/runs/{run_id}/messages", {"content": "hello"})
    assert (late.status, late["code"]) == (409, "run_not_active")
    assert late["reason"] == "no_active_run"

    run_id = await client.submit("ask")
    request = await client.wait_for_event(run_id, "permission_request")
    call_id = request.data["payload"]["call_id"]
    answer = {"call_id": call_id, "approved": True, "note": "go"}
    assert (await client.post(f"/api/runs/{run_id}/resume", answer)).status == 200
    assert (await client.wait_for_end(run_id))["result"] == {"approved": True, "note": "go"}


async def test_queued_run_is_explained_with_its_holder_and_position(client: Client) -> None:
    first = await client.submit("stay", key="ann")
    behind = await client.submit("stay", key="ann", on_conflict="enqueue")
    explained = await client.get(f"/api/runs/{behind}/explain")
    assert (explained["gate"], explained["holder_ids"], explained["position"]) == (
        "key",
        [first],
        1,
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/explain"),
        ("GET", "/events"),
        ("POST", "/cancel"),
        ("GET", "/files"),
        ("GET", "/messages"),
    ],
)
async def test_unknown_run_is_404(client: Client, method: str, path: str) -> None:
    answer = await client.call(method, f"/api/runs/nope{path}")
    assert (answer.status, answer["code"]) == (404, "run_not_found")


@pytest.mark.proves("I3")
async def test_answer_to_a_submission_equals_the_stored_run(client: Client) -> None:
    await client.call("PATCH", "/api/lanes/held", {"paused": True})
    for body in (
        {"job": "echo"},
        {"job": "echo", "key": "ann", "params": {"said": {"ä": [1, None]}}, "timeout_s": 5},
        {"job": "stay", "key": "ann", "on_conflict": "enqueue", "queue_timeout_s": 60},
        {"job": "echo", "key": "bob", "mode": "continue"},
    ):
        answer = await client.post("/api/runs", {**body, "lane": "held"})
        assert answer.status == 201
        read = (await client.get(f"/api/runs/{answer['id']}")).body
        assert {**answer.body, "traceback": None} == read


@pytest.mark.proves("R1.8")
async def test_files_of_a_run_are_listed_in_pages(client: Client) -> None:
    @client.hw.job
    async def write_files(ctx: RunContext) -> None:
        for path in ("a.txt", "b/c.txt"):
            async with ctx.file(path) as file:
                await file.write(b"seven b")

    run_id = await client.submit("write_files")
    await client.hw.run(run_id).wait_for_end()
    first = await client.get(f"/api/runs/{run_id}/files?limit=1")
    (file,) = first["files"]
    assert (file["path"], file["byte_count"]) == ("a.txt", 7)
    rest = await client.get(f"/api/runs/{run_id}/files?limit=1&cursor={first['cursor']}")
    assert ([file_["path"] for file_ in rest["files"]], rest["cursor"]) == (["b/c.txt"], None)
    assert (await client.get("/api/runs/none/files")).status == 404
