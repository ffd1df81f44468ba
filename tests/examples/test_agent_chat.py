"""The chat agent against a scripted endpoint: a live conversation in one example."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from examples.agent_chat import agent
from examples.agent_chat.agent import Agent, Endpoint
from examples.agent_chat.scripted import Script, serve

from headway import Headway, InvalidInput, Refusal, RunFailed, RunHandle, RunStatus
from tests.cli.command import TIMEOUT_S, environment

ROOT: Final = Path(__file__).parents[2]
LINES_MAX: Final = 320

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def hw(url: str, script: Script) -> AsyncIterator[Headway]:
    async with serve(script) as address:
        hw = Headway(url)
        hw.job(name="chat")(Agent(Endpoint(address)).chat)
        async with asyncio.timeout(60), hw:
            yield hw


async def start_turn(hw: Headway, text: str) -> RunHandle:
    return await hw.continue_("chat", key="ann", params={"text": text})


async def payloads(run: RunHandle, event_type: str) -> list[Any]:
    events = run.events()
    return [json.loads(event.payload) async for event in events if event.type == event_type]


async def wait_for_question(run: RunHandle) -> str:
    """Return the call id of the first open question."""
    while not (interrupts := await run.interrupts()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return next(iter(interrupts))


@pytest.mark.proves("R4.11")
async def test_tokens_are_sent_as_events_and_the_next_turn_receives_the_history(
    hw: Headway, script: Script
) -> None:
    first = await start_turn(hw, "good morning")
    assert await first.result() == "you said: good morning "
    tokens = [payload["text"] for payload in await payloads(first, "token")]
    assert tokens == ["you ", "said: ", "good ", "morning "]
    await (await start_turn(hw, "and now?")).result()
    contents = [message["content"] for message in script.requests[-1]]
    assert contents == ["good morning", "you said: good morning ", "and now?"]


@pytest.mark.proves("R4.9")
@pytest.mark.parametrize(
    ("approved", "result"), [(True, "9 notes deleted"), (False, "not allowed")]
)
async def test_tool_call_waits_for_permission(hw: Headway, *, approved: bool, result: str) -> None:
    run = await start_turn(hw, "delete my notes")
    call_id = await wait_for_question(run)
    with pytest.raises(InvalidInput, match=r"answer\.approved must be of type boolean"):
        await run.answer(call_id, {"approved": "yes"})
    await run.answer(call_id, {"approved": approved}, by="ann")
    assert await run.result() == f"you said: {result} "
    assert [payload["result"] for payload in await payloads(run, "tool")] == [result]


@pytest.mark.proves("R4.11")
async def test_message_is_read_between_two_steps(hw: Headway, script: Script) -> None:
    run = await start_turn(hw, "delete, but wait")
    await script.paused.wait()
    assert await run.steer({"text": "only the old ones"}, by="bob") is None
    script.resume.set()
    await run.answer(await wait_for_question(run), {"approved": True})
    assert await run.result() == "you said: only the old ones "
    assert [payload["by"] for payload in await payloads(run, "queued_message")] == ["bob"]


@pytest.mark.proves("I3")
async def test_message_sent_as_the_turn_ends_is_answered(hw: Headway, script: Script) -> None:
    run = await start_turn(hw, "wait")
    await script.paused.wait()
    assert await run.steer({"text": "one more thing"}) is None
    script.resume.set()
    assert await run.result() == "you said: one more thing "


@pytest.mark.proves("R4.14")
async def test_messages_are_refused_during_compaction(
    hw: Headway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "COMPACT_AT_CHARS", 3)
    run = await start_turn(hw, "good morning")
    await script.paused.wait()
    assert await run.steer({"text": "?"}) is Refusal.COMPACTING
    script.resume.set()
    await run.result()
    assert [message["role"] for message in script.requests[-1]] == ["system", "user"]


@pytest.mark.proves("R4.14")
async def test_compaction_that_takes_too_long_is_abandoned(
    hw: Headway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "COMPACT_AT_CHARS", 3)
    monkeypatch.setattr(agent, "COMPACTION_TIMEOUT_S", 0.05)
    run = await start_turn(hw, "good morning")
    assert await run.result() == "you said: good morning "
    ((warning,),) = [payload["lines"] for payload in await payloads(run, "run_log")]
    assert warning["message"] == "the compaction took too long"


@pytest.mark.proves("R4.10")
async def test_cancel_stops_a_streaming_reply(hw: Headway) -> None:
    run = await start_turn(hw, "count")
    async for event in run.events():
        if event.type == "token":
            break
    await run.cancel(by="ann")
    with pytest.raises(RunFailed):
        await run.result()
    assert await run.status() is RunStatus.CANCELED
    assert await (await start_turn(hw, "hello")).result() == "you said: hello "


@pytest.mark.proves("R1.8", "R4.9", "R4.10")
async def test_turn_cancelled_at_a_question_ends_without_another_model_call(
    hw: Headway, script: Script
) -> None:
    run = await start_turn(hw, "delete my notes")
    await wait_for_question(run)
    await run.cancel(by="ann")
    assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert len(script.requests) == 1
    assert await payloads(run, "tool") == []
    assert (await payloads(run, "permission_result"))[0]["outcome"] == "cancelled"
    assert await (await start_turn(hw, "hello")).result() == "you said: hello "
    history = [(message["role"], message["content"]) for message in script.requests[-1]]
    assert history[-2:] == [("tool", "cancelled"), ("user", "hello")]


def open_agent(url: str, address: str) -> Headway:
    hw = Headway(url)
    hw.job(name="chat")(Agent(Endpoint(address)).chat)
    return hw


@pytest.mark.proves("R4.9", "R6.5", "I25")
async def test_turn_restarted_at_a_question_keeps_the_question_and_repeats_no_model_call(
    url: str, script: Script
) -> None:
    async with asyncio.timeout(60), serve(script) as address:
        async with open_agent(url, address) as hw:
            run = await start_turn(hw, "delete my notes")
            call_id = await wait_for_question(run)
        async with Headway(url) as elsewhere:
            await elsewhere.run(run.id).answer(call_id, {"approved": True}, by="ann")
        async with open_agent(url, address) as hw:
            run = hw.run(run.id)
            assert await run.result() == "you said: 9 notes deleted "
            assert [payload["result"] for payload in await payloads(run, "tool")] == [
                "9 notes deleted"
            ]
    assert len(script.requests) == 2  # The stored reply was not requested again.
    roles = [message["role"] for message in script.requests[-1]]
    assert roles == ["user", "assistant", "tool"]


class TwoCalls(Script):
    """Requests two tool calls at once, with the same ids in every turn."""

    async def deltas(self, messages: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        if messages[-1]["role"] != "user":
            yield {"content": "done"}
            return
        for index in range(2):
            function = {"name": "delete_notes", "arguments": json.dumps({"count": index + 1})}
            yield {"tool_calls": [{"index": index, "id": f"call-{index}", "function": function}]}


async def approve(run: RunHandle, call_id: str) -> None:
    assert await wait_for_question(run) == call_id
    await run.answer(call_id, {"approved": True})


@pytest.mark.proves("R4.9", "R6.5", "I25")
async def test_turn_restarted_at_its_second_tool_does_not_repeat_the_first(
    url: str,
) -> None:
    script = TwoCalls()
    async with asyncio.timeout(60), serve(script) as address:
        async with open_agent(url, address) as hw:
            run = await start_turn(hw, "tidy up")
            await approve(run, "call-0")
            assert await wait_for_question(run) == "call-1"
        async with open_agent(url, address) as hw:
            run = hw.run(run.id)
            while (await run.record()).run.generation < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await approve(run, "call-1")
            assert await run.result() == "done"
            results = [payload["result"] for payload in await payloads(run, "tool")]
            assert results == ["1 notes deleted", "2 notes deleted"]
            assert [payload["call_id"] for payload in await payloads(run, "permission_result")] == [
                "call-0",
                "call-1",
            ]
            following = await start_turn(
                hw, "and again"
            )  # In a new turn the same ids are new calls.
            await approve(following, "call-0")
            await approve(following, "call-1")
            assert await following.result() == "done"
    call_ids = [
        message["tool_call_id"] for message in script.requests[1] if message["role"] == "tool"
    ]
    assert call_ids == ["call-0", "call-1"]


def test_demonstration_shows_every_feature(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "examples.agent_chat"],
        cwd=ROOT,
        env=environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    for line in (
        "you said: good morning",
        "[answered by ann: {'approved': True}]",
        "bob adds: only the old ones",
        "[answered by ann: {'approved': False}]",
        "[canceled]",
    ):
        assert line in ended.stdout


def test_example_stays_short() -> None:
    files = (ROOT / "examples" / "agent_chat").glob("*.py")
    assert sum(len(file.read_text().splitlines()) for file in files) < LINES_MAX
