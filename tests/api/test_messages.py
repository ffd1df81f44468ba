"""Messages over HTTP: 202 means that the message will reach the job; errors have a reason."""

import asyncio
import json
from typing import Any

import pytest

from headway.services.context.run_context import RunContext
from tests.api.client import Client
from tests.api.test_flows import ASK

pytestmark = pytest.mark.backend("sqlite")

LATER = {"content": "hello", "deliver": "when_listening"}


async def send_refused(client: Client, run_id: str, reason: str, *, deliver: str = "now") -> Any:
    """Send a message that is refused for this reason, and return the answer."""
    body = {"content": "hello"} if deliver == "now" else {"content": "hello", "deliver": deliver}
    answer = await client.post(f"/api/runs/{run_id}/messages", body)
    assert answer.status == 409, answer
    assert (answer["reason"], answer["run_id"]) == (reason, run_id)
    assert (await client.get(f"/api/runs/{run_id}"))["unread_count"] == 0
    return answer


async def unread_reports(client: Client, run_id: str) -> list[Any]:
    events = (await client.get(f"/api/runs/{run_id}/events"))["events"]
    return [event["payload"] for event in events if event["type"] == "run_messages_unread"]


@pytest.mark.proves("R4.11", "R4.8", "I26")
async def test_a_message_for_a_queued_run_is_refused_as_not_started(client: Client) -> None:
    await client.call("PATCH", "/api/lanes/main", {"paused": True})
    run_id = await client.submit("listen")
    answer = await send_refused(client, run_id, "not_started")
    assert (answer["code"], answer["can_wait"]) == ("message_refused", True)
    assert "has not started" in answer["detail"]
    assert "when_listening" in answer["detail"]


@pytest.mark.proves("R4.11", "R4.8", "I26")
async def test_a_message_for_a_run_that_does_not_listen_is_refused_as_not_streaming(
    client: Client,
) -> None:
    run_id = await client.submit("stay")
    await client.wait_until_running(run_id)
    answer = await send_refused(client, run_id, "not_streaming")
    assert answer["can_wait"] is True
    assert "does not listen" in answer["detail"]
    assert (await client.get(f"/api/runs/{run_id}"))["is_listening"] is False


@pytest.mark.proves("R4.11", "I26")
@pytest.mark.parametrize("deliver", ["now", "when_listening"])
async def test_a_message_for_a_flow_task_is_refused_and_the_answer_names_signals(
    client: Client, deliver: str
) -> None:
    await client.call("PUT", "/api/flows/asks", ASK)
    task_id = (await client.post("/api/flows/asks/tasks", {}))["id"]
    answer = await send_refused(client, task_id, "flow_task", deliver=deliver)
    assert answer["can_wait"] is False
    assert f"POST /api/tasks/{task_id}/signal" in answer["detail"]


@pytest.mark.proves("R4.11", "I26")
@pytest.mark.parametrize("deliver", ["now", "when_listening"])
async def test_a_message_for_a_run_that_has_ended_is_refused_as_no_active_run(
    client: Client, deliver: str
) -> None:
    run_id = await client.submit("echo")
    await client.wait_for_end(run_id)
    await send_refused(client, run_id, "no_active_run", deliver=deliver)


@pytest.mark.proves("R4.8", "R4.14", "I26")
async def test_a_message_is_refused_during_compaction_and_after_the_run_stops_listening(
    client: Client,
) -> None:
    may_go_on = asyncio.Event()

    @client.hw.job()
    async def agent(ctx: RunContext) -> None:
        async with ctx.listening(), ctx.compacting():
            await ctx.emit("compacts", {})
            await ctx.sleep(0)
            await may_go_on.wait()
        may_go_on.clear()
        await ctx.emit("closed", {})
        await may_go_on.wait()

    run_id = await client.submit("agent")
    await client.wait_for_event(run_id, "compacts")
    assert (await send_refused(client, run_id, "compacting"))["can_wait"] is True
    may_go_on.set()
    await client.wait_for_event(run_id, "closed")
    for deliver in ("now", "when_listening"):
        answer = await send_refused(client, run_id, "not_streaming", deliver=deliver)
        assert answer["can_wait"] is False
    may_go_on.set()
    await client.wait_for_end(run_id)


@pytest.mark.proves("R4.11", "I26")
async def test_job_listens_from_its_first_read_of_messages(client: Client) -> None:
    may_read = asyncio.Event()

    @client.hw.job()
    async def read_messages(ctx: RunContext) -> list[Any]:
        await may_read.wait()
        received = await ctx.messages()
        await ctx.emit("read_once", {})
        while not received:
            received = await ctx.messages()
            await asyncio.sleep(0.01)
        return received

    run_id = await client.submit("read_messages")
    await client.wait_until_running(run_id)
    await send_refused(client, run_id, "not_streaming")
    may_read.set()
    await client.wait_for_event(run_id, "read_once")
    assert (await client.get(f"/api/runs/{run_id}"))["is_listening"] is True
    assert (await client.post(f"/api/runs/{run_id}/messages", {"content": "hello"})).status == 202
    assert (await client.wait_for_end(run_id))["result"] == ["hello"]


@pytest.mark.proves("R4.11", "I26")
async def test_a_message_sent_before_the_run_listens_is_delivered_later(
    client: Client,
) -> None:
    await client.call("PATCH", "/api/lanes/main", {"paused": True})
    run_id = await client.submit("listen")
    path = f"/api/runs/{run_id}/messages"
    assert (await client.post(path, LATER)).status == 202
    (message,) = (await client.get(path))["messages"]
    assert (message["content"], message["read"], message["carried"]) == ("hello", False, False)
    await client.call("PATCH", "/api/lanes/main", {"paused": False})
    assert (await client.wait_for_end(run_id))["result"] == ["hello"]
    assert [message["read"] for message in (await client.get(path))["messages"]] == [True]
    assert await unread_reports(client, run_id) == []


@pytest.mark.proves("R4.11", "I26")
async def test_messages_that_a_run_has_not_read_are_reported_when_it_ends(client: Client) -> None:
    run_id = await client.submit("stay")
    path = f"/api/runs/{run_id}/messages"
    for content in ("one", {"$secret": "hunter2"}):
        body = {"content": content, "deliver": "when_listening"}
        assert (await client.post(path, body)).status == 202
    await client.post(f"/api/runs/{run_id}/cancel")
    run = await client.wait_for_end(run_id)
    assert (run["status"], run["unread_count"]) == ("canceled", 2)
    (report,) = await unread_reports(client, run_id)
    assert report["count"] == 2
    assert [message["message"] for message in report["messages"]] == ["one", {"secret": "set"}]
    listed = (await client.get(path)).body
    assert [message["read"] for message in listed["messages"]] == [False, False]
    assert "hunter2" not in json.dumps(listed)
    metrics = (await client.get("/metrics")).body
    assert 'headway_messages_unread_total{lane="main"} 2.0' in metrics


@pytest.mark.proves("R3.11", "R4.11", "I26")
async def test_a_message_to_a_run_that_is_replaced_reaches_the_run_that_replaces_it(
    client: Client,
) -> None:
    @client.hw.job()
    async def chat(ctx: RunContext, turn: int) -> list[Any]:
        async with ctx.listening():
            await ctx.emit("listens", {})
            if turn == 1:
                await asyncio.Event().wait()  # The run is replaced before it reads.
            return await ctx.messages()

    first = await client.submit("chat", key="ann", params={"turn": 1})
    await client.wait_for_event(first, "listens")
    sent = await client.post(f"/api/runs/{first}/messages", {"content": "hello"})
    assert sent.status == 202
    second = await client.submit("chat", key="ann", params={"turn": 2}, on_conflict="replace")
    assert (await client.wait_for_end(second))["result"] == ["hello"]
    carried = await client.wait_for_event(first, "run_messages_carried")
    assert carried.data["payload"] == {"count": 1, "to": second}
    (message,) = (await client.get(f"/api/runs/{first}/messages"))["messages"]
    assert (message["read"], message["carried"]) == (False, True)
    assert await unread_reports(client, first) == await unread_reports(client, second) == []


@pytest.mark.proves("R4.11")
async def test_messages_are_listed_in_pages(client: Client) -> None:
    run_id = await client.submit("stay")
    path = f"/api/runs/{run_id}/messages"
    for number in range(3):
        await client.post(path, {"content": number, "deliver": "when_listening"})
    first = await client.get(f"{path}?limit=2")
    rest = await client.get(f"{path}?limit=2&cursor={first['cursor']}")
    assert [message["content"] for message in first["messages"] + rest["messages"]] == [0, 1, 2]
    assert rest["cursor"] is None


UNKNOWN = {
    "messages": {"content": "hello"},
    "resume": {"call_id": "1.1", "approved": True},
    "cancel": {},
}


@pytest.mark.proves("R4.11", "R4.9", "R1.8")
@pytest.mark.parametrize("verb", UNKNOWN)
async def test_unknown_run_is_404_as_documented(client: Client, verb: str) -> None:
    answer = await client.post(f"/api/runs/nope/{verb}", UNKNOWN[verb])
    assert (answer.status, answer["code"], answer["run_id"]) == (404, "run_not_found", "nope")
    document = (await client.get("/openapi.json")).body
    assert "404" in document["paths"][f"/api/runs/{{run_id}}/{verb}"]["post"]["responses"]
