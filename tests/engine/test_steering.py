"""Messages to a running job, and its interrupts: windows, refusals, schemas, cancel stages."""

import asyncio
import json
import threading
from typing import Any

import pytest

from headway import (
    BlockingRunContext,
    CancelResult,
    Headway,
    InboxOverflow,
    InvalidInput,
    KeyBusy,
    MessageRefused,
    Refusal,
    RunContext,
    RunHandle,
    RunNotActive,
    RunNotFound,
)
from headway.core.command.run import inbox
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus
from headway.services.submit import active_runs

pytestmark = pytest.mark.backend("sqlite")

FORM = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}


class Scene:
    """A job whose loop moves from phase to phase when the test lets it."""

    def __init__(self, url: str) -> None:
        self.hw = Headway(url)
        self.reached: dict[str, asyncio.Event] = {}
        self.may_continue: dict[str, asyncio.Event] = {}
        for phase in ("begun", "streaming", "compacting", "again", "closed"):
            self.reached[phase], self.may_continue[phase] = asyncio.Event(), asyncio.Event()
        self.received: list[Any] = []
        self.hw.job(name="agent")(self.agent)

    async def agent(self, ctx: RunContext) -> list[Any]:
        await self._at("begun")
        async with ctx.listening():
            await self._at("streaming")
            self.received += await ctx.messages()
            async with ctx.compacting():
                await self._at("compacting")
            await self._at("again")
        await self._at("closed")
        self.received += await ctx.messages()
        return self.received

    async def _at(self, phase: str) -> None:
        self.reached[phase].set()
        await self.may_continue[phase].wait()

    async def wait_for_phase(self, phase: str) -> None:
        for earlier in self.reached:
            if earlier == phase:
                break
            self.may_continue[earlier].set()
        await self.reached[phase].wait()


@pytest.mark.proves("R4.8")
async def test_a_run_accepts_messages_only_while_its_loop_listens(url: str) -> None:
    scene = Scene(url)
    async with asyncio.timeout(60), scene.hw as hw:
        run = await hw.start("agent", key="ann")
        await scene.wait_for_phase("begun")
        assert await run.steer("too early") is Refusal.NOT_STREAMING
        await scene.wait_for_phase("streaming")
        assert (await run.is_streaming(), await run.is_compacting()) == (True, False)
        assert await run.steer("one", by="bob") is None
        await scene.wait_for_phase("compacting")
        assert (await run.is_streaming(), await run.is_compacting()) == (False, True)
        assert await run.steer("lost?") is Refusal.COMPACTING
        with pytest.raises(MessageRefused, match="is compacting, and accepts no messages"):
            await run.send("lost?")
        await scene.wait_for_phase("again")
        assert await run.steer("two") is None
        await scene.wait_for_phase("closed")
        assert await run.steer("too late") is Refusal.NOT_STREAMING
        assert await run.cancel() is CancelResult.TOO_LATE
        with pytest.raises(KeyBusy):  # Its key stays busy until the run has ended.
            await hw.start("agent", key="ann")
        scene.may_continue["closed"].set()
        # Messages accepted before the loop ended are not lost.
        assert await run.result() == ["one", "two"]
        assert await run.steer("over") is Refusal.NO_ACTIVE_RUN


@pytest.mark.proves("R4.11")
async def test_each_consumed_message_has_an_event_with_its_sender(url: str) -> None:
    scene = Scene(url)
    async with asyncio.timeout(60), scene.hw as hw:
        run = await hw.start("agent")
        await scene.wait_for_phase("streaming")
        for text in ("one", "two"):
            await run.steer(text, by="bob")
        for gate in scene.may_continue.values():
            gate.set()
        await run.result()
        payloads = [
            json.loads(event.payload)
            async for event in run.events()
            if event.type == EventType.QUEUED_MESSAGE
        ]
    assert [(payload["by"], payload["message"]) for payload in payloads] == [
        ("bob", "one"),
        ("bob", "two"),
    ]


@pytest.mark.proves("R4.15")
async def test_a_full_inbox_refuses_messages(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "UNREAD_COUNT_MAX", 2)
    scene = Scene(url)
    async with asyncio.timeout(60), scene.hw as hw:
        run = await hw.start("agent")
        await scene.wait_for_phase("streaming")
        assert [await run.steer(number) for number in range(3)] == [None, None, Refusal.FULL]
        with pytest.raises(InboxOverflow):
            await run.send(3)
        for gate in scene.may_continue.values():
            gate.set()
        assert await run.result() == [0, 1]


@pytest.mark.proves("R4.11")
async def test_a_message_that_the_active_run_refuses_starts_the_next_run_of_the_key(
    url: str,
) -> None:
    hw, may_end = Headway(url), asyncio.Event()

    @hw.job()
    async def reply(ctx: RunContext, text: str) -> list[str]:
        await may_end.wait()
        return [text, *await ctx.messages()]

    async with asyncio.timeout(60), hw:
        first = await hw.start("reply", key="ann", params={"text": "one"})
        # It takes no messages now, so both come after it.
        steered = await hw.start("reply", key="ann", params={"text": "two"}, on_conflict="steer")
        after = await hw.start("reply", key="ann", params={"text": "three"}, on_conflict="enqueue")
        may_end.set()
        assert [await run.result() for run in (first, steered, after)] == [
            ["one"],
            ["two"],
            ["three"],
        ]


@pytest.mark.proves("R4.14")
async def test_a_compaction_ends_at_its_timeout(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def agent(ctx: RunContext) -> list[bool]:
        async with ctx.listening():
            try:
                async with ctx.compacting(timeout_s=0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                run = hw.run(ctx.run_id)
                return [await run.is_streaming(), await run.is_compacting()]
        return []

    async with asyncio.timeout(60), hw:
        assert await (await hw.start("agent")).result() == [True, False]


@pytest.mark.proves("R3.11")
async def test_the_active_run_of_a_key_is_reachable_from_any_instance(url: str) -> None:
    scene = Scene(url)
    async with asyncio.timeout(60), scene.hw as here, Headway(url) as there:
        assert await there.active.get("ann") is None
        assert (await there.active.queue_message("ann", "?")).refusal is Refusal.NO_ACTIVE_RUN
        assert await there.active.abort("ann") is False
        run = await here.start("agent", key="ann")
        await scene.wait_for_phase("begun")
        active = await there.active.get("ann")
        assert active is not None
        assert active.id == run.id
        refused = await there.active.queue_message("ann", "?")
        assert (bool(refused), refused.refusal) == (False, Refusal.NOT_STREAMING)
        await scene.wait_for_phase("streaming")
        assert await there.active.queue_message("ann", "hi")
        await scene.wait_for_phase("compacting")
        assert (await there.active.queue_message("ann", "?")).refusal is Refusal.COMPACTING
        assert await there.active.abort("ann") is True
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("R3.11", "R7.10")
async def test_aborting_a_key_starts_none_of_its_queued_runs(url: str) -> None:
    hw, begun, started = Headway(url), list[int](), asyncio.Event()

    @hw.job()
    async def turn(ctx: RunContext, number: int) -> None:
        begun.append(number)
        started.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(60), hw, Headway(url) as elsewhere:
        turns = [
            await hw.start("turn", key="ann", params={"number": n}, on_conflict="enqueue")
            for n in range(3)
        ]
        await started.wait()
        assert await elsewhere.active.abort("ann", by="eve") is True
        ended = [await run.wait_for_end() for run in turns]
        assert await elsewhere.active.abort("ann") is False
        after = await hw.start("turn", key="ann", params={"number": 9})  # The key is free.
        while 9 not in begun:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await after.cancel()
    assert [record.run.status for record in ended] == [RunStatus.CANCELED] * 3
    assert [json.loads(record.cancel or "")["by"] for record in ended] == ["eve"] * 3
    assert begun == [0, 9]


@pytest.mark.proves("R3.11")
async def test_the_end_of_a_run_wakes_all_its_waiters(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_runs, "WAIT_S_MIN", 0.01)
    scene = Scene(url)
    async with asyncio.timeout(60), scene.hw as here, Headway(url) as there:
        assert await there.active.wait_for_end("ann") is True
        run = await here.start("agent", key="ann")
        await scene.wait_for_phase("begun")
        assert await there.active.wait_for_end("ann", timeout_s=0) is False
        waits = [hw.active.wait_for_end("ann", timeout_s=60) for hw in (here, there, there)]
        for gate in scene.may_continue.values():
            gate.set()
        assert await asyncio.gather(*waits) == [True, True, True]
        await run.result()


async def wait_for_call_id(run: RunHandle) -> str:
    while not (interrupts := await run.interrupts()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return next(iter(interrupts))


@pytest.mark.proves("R4.9")
async def test_an_answer_that_violates_the_schema_is_refused(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt("how many?", schema=FORM, call_id="tool-1")

    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        assert await wait_for_call_id(run) == "tool-1"
        with pytest.raises(InvalidInput, match=r"answer\.count must be of type integer"):
            await run.answer("tool-1", {"count": "many"})
        await run.answer("tool-1", {"count": 3}, by="ann")
        assert await run.result() == {"count": 3}


@pytest.mark.proves("R4.9")
async def test_without_an_answer_in_time_the_default_applies(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt("?", timeout_s=0.01, default={"count": 1}, schema=FORM)

    @hw.job()
    async def invalid(ctx: RunContext) -> Any:
        return await ctx.interrupt("?", default={"count": "one"}, schema=FORM)

    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        assert await run.result() == {"count": 1}
        closed = [
            json.loads(event.payload)
            async for event in run.events()
            if event.type == EventType.PERMISSION_RESULT
        ]
        assert [(payload["outcome"], payload["by"]) for payload in closed] == [("timed_out", None)]
        with pytest.raises(Exception, match=r"default\.count must be of type integer"):
            await (await hw.start("invalid")).result()


@pytest.mark.proves("R4.15")
async def test_lease_interrupt_timeout_and_run_timeout_are_independent(url: str) -> None:
    """The lease is the shortest and is renewed; a long interrupt does not extend the run."""
    hw, answers = Headway(url, lease_ttl_s=0.5), list[Any]()

    @hw.job(timeout_s=2)
    async def asks(ctx: RunContext) -> None:
        answers.append(await ctx.interrupt("in time?", timeout_s=0.01))
        await ctx.interrupt("at all?", timeout_s=3_600, call_id="last")

    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        ended = (await run.wait_for_end()).run
        assert answers == [None]  # An interrupt that times out does not end the run.
        assert (ended.status, ended.generation) == (RunStatus.TIMED_OUT, 1)
        with pytest.raises(RunNotActive):
            await run.answer("last", "yes")


@pytest.mark.proves("R4.9")
async def test_a_cancel_answers_all_open_interrupts_of_a_run(url: str) -> None:
    hw, answers = Headway(url), list[Any]()

    @hw.job()
    async def asks(ctx: RunContext) -> None:
        first = asyncio.create_task(ctx.interrupt("first", call_id="first"))
        second = asyncio.create_task(ctx.interrupt("second", call_id="second"))
        answers.append(await first)
        answers.append(await second)

    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        while len(await run.interrupts()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await run.answer("first", "yes")
        while not answers:  # noqa: ASYNC110 - One is answered, the other still waits.
            await asyncio.sleep(0.01)
        await run.cancel()
        await run.wait_for_end()
    assert answers == ["yes", {"approved": False, "reason": "cancelled"}]


@pytest.mark.proves("R4.10")
async def test_events_show_the_stages_of_a_cancel(url: str) -> None:
    hw, began = Headway(url), asyncio.Event()

    @hw.job()
    async def hang(ctx: RunContext) -> None:
        began.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(60), hw:
        run = await hw.start("hang")
        await began.wait()
        assert await run.cancel() is CancelResult.REQUESTED
        await run.wait_for_end()
        stages = [json.loads(event.payload).get("to", event.type) async for event in run.events()]
    assert stages[-3:] == ["cancelling", "run_cancel_delivered", "canceled"]


@pytest.mark.proves("R4.8")
async def test_a_plain_function_can_listen_for_messages(url: str) -> None:
    hw, listens = Headway(url), asyncio.Event()
    loop = asyncio.get_running_loop()

    @hw.job()
    def agent(ctx: BlockingRunContext) -> list[Any]:
        answers: list[Any] = []
        with ctx.listening():
            loop.call_soon_threadsafe(listens.set)
            while not answers:
                answers += ctx.messages()
                ctx.sleep(0.01)
        return answers

    async with asyncio.timeout(60), hw:
        run = await hw.start("agent")
        await listens.wait()
        assert await run.steer("hi") is None
        assert await run.result() == ["hi"]


@pytest.mark.proves("R4.8", "R4.11", "I26")
async def test_a_plain_function_listens_from_its_first_read_of_messages(url: str) -> None:
    hw, has_read = Headway(url), asyncio.Event()
    may_read = threading.Event()
    loop = asyncio.get_running_loop()

    @hw.job()
    def agent(ctx: BlockingRunContext) -> list[Any]:
        may_read.wait()
        answers = ctx.messages()
        loop.call_soon_threadsafe(has_read.set)
        while not answers:
            answers = ctx.messages()
            ctx.sleep(0.01)
        return answers

    async with asyncio.timeout(60), hw:
        run = await hw.start("agent")
        while await run.status() is not RunStatus.RUNNING:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(MessageRefused, match="does not listen for messages now") as refused:
            await run.send("too early")
        assert (refused.value.reason, refused.value.can_wait) == ("not_streaming", True)
        may_read.set()
        await has_read.wait()
        await run.send("hi")
        assert await run.result() == ["hi"]


@pytest.mark.proves("R4.14", "I26")
async def test_a_run_that_compacts_before_it_listens_accepts_no_messages_afterwards(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def agent(ctx: RunContext) -> list[Refusal | None]:
        run = hw.run(ctx.run_id)
        async with ctx.compacting():
            first = await run.steer("meanwhile")
        return [first, await run.steer("afterwards")]

    async with asyncio.timeout(60), hw:
        answers = await (await hw.start("agent")).result()
    assert answers == [Refusal.COMPACTING, Refusal.NOT_STREAMING]


@pytest.mark.proves("R3.11", "R1.5", "I26")
async def test_steering_messages_survive_the_replacement_of_their_run(url: str) -> None:
    hw, listens = Headway(url), asyncio.Event()

    @hw.job()
    async def chat(ctx: RunContext, text: str) -> list[Any]:
        async with ctx.listening():
            if text == "first":
                listens.set()
                await asyncio.Event().wait()
            return [text, *await ctx.messages()]

    async with asyncio.timeout(60), hw:
        first = await hw.start("chat", key="ann", params={"text": "first"})
        await listens.wait()
        assert await hw.active.queue_message("ann", "by queue_message")
        steered = await hw.start("chat", key="ann", params={"text": "s"}, on_conflict="steer")
        assert steered.id == first.id
        new = await hw.start("chat", key="ann", params={"text": "new"}, on_conflict="replace")
        assert await new.result() == ["new", "by queue_message", {"text": "s"}]


@pytest.mark.proves("R4.11", "R4.9")
async def test_messages_and_answers_to_an_unknown_run_are_refused(url: str) -> None:
    async with Headway(url) as hw:
        run = hw.run("nope")
        with pytest.raises(RunNotFound, match="there is no run 'nope'"):
            await run.send("hello")
        with pytest.raises(RunNotFound):
            await run.answer("1.1", "yes")
        assert await run.steer("hello") is Refusal.NO_ACTIVE_RUN


@pytest.mark.proves("R4.11")
async def test_an_unknown_delivery_mode_is_refused(url: str) -> None:
    async with Headway(url) as hw:
        with pytest.raises(InvalidInput, match="deliver"):
            await hw.run("nope").send("hello", deliver="soon")
