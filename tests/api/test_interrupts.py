"""What waits for a person, over HTTP: seen, answered once, gone."""

from datetime import datetime, timedelta

import pytest

from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R4.13")
async def test_what_waits_for_a_person_is_listed_until_it_is_answered(
    client: Client,
) -> None:
    assert (await client.get("/api/interrupts")).body == {"interrupts": [], "cursor": None}
    run_id = await client.submitted("ask", key="ann")
    told = await client.told(run_id, "permission_request")
    (waiting,) = (await client.get("/api/interrupts"))["interrupts"]
    assert (waiting["run_id"], waiting["key"], waiting["job"]) == (run_id, "ann", "ask")
    assert waiting["question"] == {"tool": "delete", "count": 9}
    assert (waiting["schema"]["required"], waiting["default"]) == (
        ["approved"],
        {"approved": False},
    )
    asked_at, answer_deadline_at = (
        datetime.fromisoformat(waiting[name]) for name in ("asked_at", "answer_deadline_at")
    )
    assert answer_deadline_at - asked_at == timedelta(seconds=60)
    assert waiting["call_id"] == told.data["payload"]["call_id"]
    answer = {"call_id": waiting["call_id"], "approved": True}
    assert (await client.post(f"/api/runs/{run_id}/resume", answer)).status == 200
    assert (await client.ended(run_id))["result"]["approved"] is True
    assert (await client.get("/api/interrupts"))["interrupts"] == []


async def test_questions_are_listed_page_by_page(client: Client) -> None:
    for key in ("ann", "bob"):
        await client.told(await client.submitted("ask", key=key), "permission_request")
    page = await client.get("/api/interrupts?limit=1")
    assert [one["key"] for one in page["interrupts"]] == ["ann"]
    rest = await client.get(f"/api/interrupts?limit=1&cursor={page['cursor']}")
    assert ([one["key"] for one in rest["interrupts"]], rest["cursor"]) == (["bob"], None)


@pytest.mark.proves("I15")
async def test_an_empty_run_is_refused_as_a_filter(client: Client) -> None:
    refused = await client.get("/api/interrupts?run_id=")
    assert (refused.status, refused.body["place"]) == (422, "run_id")
