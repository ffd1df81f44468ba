"""The chat agent against a scripted endpoint: the whole of a live conversation in one example."""

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
from examples.agent_chat.scripted import Script, served

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
    async with served(script) as address:
        hw = Headway(url)
        hw.job(name="chat")(Agent(Endpoint(address)).chat)
        async with asyncio.timeout(60), hw:
            yield hw


async def said(hw: Headway, text: str) -> RunHandle:
    return await hw.continue_("chat", key="ann", params={"text": text})


async def told(run: RunHandle, kind: str) -> list[Any]:
    return [json.loads(event.payload) async for event in run.events() if event.type == kind]


async def asked(run: RunHandle) -> str:
    while not (found := await run.interrupts()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return next(iter(found))


@pytest.mark.proves("R4.11")
async def test_tokens_are_events_and_a_conversation_goes_on(hw: Headway, script: Script) -> None:
    first = await said(hw, "good morning")
    assert await first.result() == "you said: good morning "
    words = [one["text"] for one in await told(first, "token")]
    assert words == ["you ", "said: ", "good ", "morning "]
    await (await said(hw, "and now?")).result()
    spoken = [one["content"] for one in script.asked[-1]]
    assert spoken == ["good morning", "you said: good morning ", "and now?"]


@pytest.mark.proves("R4.9")
@pytest.mark.parametrize(
    ("approved", "result"), [(True, "9 notes deleted"), (False, "not allowed")]
)
async def test_a_tool_waits_for_a_person(hw: Headway, *, approved: bool, result: str) -> None:
    run = await said(hw, "delete my notes")
    call_id = await asked(run)
    with pytest.raises(InvalidInput, match=r"answer\.approved: must be of type boolean"):
        await run.answer(call_id, {"approved": "yes"})
    await run.answer(call_id, {"approved": approved}, by="ann")
    assert await run.result() == f"you said: {result} "
    assert [one["result"] for one in await told(run, "tool")] == [result]


@pytest.mark.proves("R4.11")
async def test_a_message_is_taken_between_two_steps(hw: Headway, script: Script) -> None:
    run = await said(hw, "delete, but wait")
    await script.waits.wait()
    assert await run.steer({"text": "only the old ones"}, by="bob") is None
    script.may_go_on.set()
    await run.answer(await asked(run), {"approved": True})
    assert await run.result() == "you said: only the old ones "
    assert [one["by"] for one in await told(run, "queued_message")] == ["bob"]


@pytest.mark.proves("I3")
async def test_a_message_that_comes_as_the_turn_ends_is_answered(
    hw: Headway, script: Script
) -> None:
    run = await said(hw, "wait")
    await script.waits.wait()
    assert await run.steer({"text": "one more thing"}) is None
    script.may_go_on.set()
    assert await run.result() == "you said: one more thing "


@pytest.mark.proves("R4.14")
async def test_messages_are_refused_while_it_compacts(
    hw: Headway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "COMPACT_AT", 3)
    run = await said(hw, "good morning")
    await script.waits.wait()
    assert await run.steer({"text": "?"}) is Refusal.COMPACTING
    script.may_go_on.set()
    await run.result()
    assert [one["role"] for one in script.asked[-1]] == ["system", "user"]


@pytest.mark.proves("R4.14")
async def test_a_compaction_that_takes_too_long_is_given_up(
    hw: Headway, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "COMPACT_AT", 3)
    monkeypatch.setattr(agent, "COMPACTION_S", 0.05)
    run = await said(hw, "good morning")
    assert await run.result() == "you said: good morning "
    ((warning,),) = [one["lines"] for one in await told(run, "run_log")]
    assert warning["message"] == "the compaction took too long"


@pytest.mark.proves("R4.10")
async def test_a_cancel_ends_an_answer_in_the_middle(hw: Headway) -> None:
    run = await said(hw, "count")
    async for event in run.events():
        if event.type == "token":
            break
    await run.cancel(by="ann")
    with pytest.raises(RunFailed):
        await run.result()
    assert await run.status() is RunStatus.CANCELED
    assert await (await said(hw, "hello")).result() == "you said: hello "


@pytest.mark.proves("R1.8", "R4.9", "R4.10")
async def test_a_turn_cancelled_while_it_asks_ends_canceled_and_calls_the_model_no_more(
    hw: Headway, script: Script
) -> None:
    run = await said(hw, "delete my notes")
    await asked(run)
    await run.cancel(by="ann")
    assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert len(script.asked) == 1
    assert await told(run, "tool") == []
    assert (await told(run, "permission_result"))[0]["outcome"] == "cancelled"
    assert await (await said(hw, "hello")).result() == "you said: hello "
    history = [(one["role"], one["content"]) for one in script.asked[-1]]
    assert history[-2:] == [("tool", "cancelled"), ("user", "hello")]


def opened(url: str, address: str) -> Headway:
    hw = Headway(url)
    hw.job(name="chat")(Agent(Endpoint(address)).chat)
    return hw


@pytest.mark.proves("R4.9", "R6.5", "I25")
async def test_a_turn_restarted_while_it_asks_keeps_its_question_and_its_step(
    url: str, script: Script
) -> None:
    async with asyncio.timeout(60), served(script) as address:
        async with opened(url, address) as hw:
            run = await said(hw, "delete my notes")
            call_id = await asked(run)
        async with Headway(url) as elsewhere:
            await elsewhere.run(run.id).answer(call_id, {"approved": True}, by="ann")
        async with opened(url, address) as hw:
            run = hw.run(run.id)
            assert await run.result() == "you said: 9 notes deleted "
            assert [one["result"] for one in await told(run, "tool")] == ["9 notes deleted"]
    assert len(script.asked) == 2  # The model was not asked again for what it had said already.
    roles = [one["role"] for one in script.asked[-1]]
    assert roles == ["user", "assistant", "tool"]


class TwoCalls(Script):
    """It wants two tools at once, and names them the same in every turn."""

    async def deltas(self, messages: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        if messages[-1]["role"] != "user":
            yield {"content": "done"}
            return
        for index in range(2):
            function = {"name": "delete_notes", "arguments": json.dumps({"count": index + 1})}
            yield {"tool_calls": [{"index": index, "id": f"call-{index}", "function": function}]}


async def approve(run: RunHandle, call_id: str) -> None:
    assert await asked(run) == call_id
    await run.answer(call_id, {"approved": True})


@pytest.mark.proves("R4.9", "R6.5", "I25")
async def test_a_turn_restarted_at_its_second_tool_does_not_use_the_first_one_again(
    url: str,
) -> None:
    script = TwoCalls()
    async with asyncio.timeout(60), served(script) as address:
        async with opened(url, address) as hw:
            run = await said(hw, "tidy up")
            await approve(run, "call-0")
            assert await asked(run) == "call-1"
        async with opened(url, address) as hw:
            run = hw.run(run.id)
            while (await run.record()).run.generation < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await approve(run, "call-1")
            assert await run.result() == "done"
            used = [one["result"] for one in await told(run, "tool")]
            assert used == ["1 notes deleted", "2 notes deleted"]
            assert [one["call_id"] for one in await told(run, "permission_result")] == [
                "call-0",
                "call-1",
            ]
            following = await said(hw, "and again")  # The same names are new calls there.
            await approve(following, "call-0")
            await approve(following, "call-1")
            assert await following.result() == "done"
    results = [one["tool_call_id"] for one in script.asked[1] if one["role"] == "tool"]
    assert results == ["call-0", "call-1"]


def test_one_command_shows_it_all(tmp_path: Path) -> None:
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


def test_it_is_short() -> None:
    files = (ROOT / "examples" / "agent_chat").glob("*.py")
    assert sum(len(file.read_text().splitlines()) for file in files) < LINES_MAX
