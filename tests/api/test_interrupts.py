"""Interrupts over HTTP: listed until they are answered."""

from datetime import datetime, timedelta

import pytest

from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R4.13")
async def test_interrupt_is_listed_until_it_is_answered(
    client: Client,
) -> None:
    assert (await client.get("/api/interrupts")).body == {"interrupts": [], "cursor": None}
    run_id = await client.submit("ask", key="ann")
    requested = await client.wait_for_event(run_id, "permission_request")
    (interrupt,) = (await client.get("/api/interrupts"))["interrupts"]
    assert (interrupt["run_id"], interrupt["key"], interrupt["job"]) == (run_id, "ann", "ask")
    assert interrupt["question"] == {"tool": "delete", "count": 9}
    assert (interrupt["schema"]["required"], interrupt["default"]) == (
        ["approved"],
        {"approved": False},
    )
    asked_at, answer_deadline_at = (
        datetime.fromisoformat(interrupt[name]) for name in ("asked_at", "answer_deadline_at")
    )
    assert answer_deadline_at - asked_at == timedelta(seconds=60)
    assert interrupt["call_id"] == requested.data["payload"]["call_id"]
    answer = {"call_id": interrupt["call_id"], "approved": True}
    assert (await client.post(f"/api/runs/{run_id}/resume", answer)).status == 200
    assert (await client.wait_for_end(run_id))["result"]["approved"] is True
    assert (await client.get("/api/interrupts"))["interrupts"] == []


async def test_interrupts_are_listed_in_pages(client: Client) -> None:
    for key in ("ann", "bob"):
        await client.wait_for_event(await client.submit("ask", key=key), "permission_request")
    page = await client.get("/api/interrupts?limit=1")
    assert [interrupt["key"] for interrupt in page["interrupts"]] == ["ann"]
    rest = await client.get(f"/api/interrupts?limit=1&cursor={page['cursor']}")
    assert ([interrupt["key"] for interrupt in rest["interrupts"]], rest["cursor"]) == (
        ["bob"],
        None,
    )


@pytest.mark.proves("I15")
async def test_empty_run_id_filter_is_refused(client: Client) -> None:
    refused = await client.get("/api/interrupts?run_id=")
    assert (refused.status, refused.body["path"]) == (422, "run_id")
