"""Unsolicited answers, and messages whose delivery was interrupted."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from headway import Headway, InterruptNotOpen, InvalidInput, RunContext, RunHandle
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.protocol import Command
from headway.core.command.run.inbox import ConsumeInbox
from headway.core.command.run.interrupt import CloseInterrupt, OpenInterrupt
from headway.core.errors import OutcomeUnknown
from headway.core.run.events import EventType
from headway.testing import claim_of, document
from tests.contract.scenes import orphan_run, start_run

pytestmark = pytest.mark.backend("sqlite")


async def wait_for_interrupts(run: RunHandle) -> dict[str, Any]:
    """Wait for open interrupts of the run and return them."""
    while not (interrupts := await run.interrupts()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return interrupts


@pytest.mark.proves("R4.15")
async def test_only_the_first_answer_to_an_open_interrupt_is_accepted(
    url: str,
) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.job()
    async def asks(ctx: RunContext) -> list[Any]:
        return [await ctx.interrupt({"step": 1}), await ctx.interrupt({"step": 2})]

    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        assert await wait_for_interrupts(run) == {"1.1": {"step": 1}}
        with pytest.raises(
            InterruptNotOpen, match=r"has no open question '7\.7'; open questions: 1\.1"
        ):
            await run.answer("7.7", "?")
        await run.answer("1.1", "first")
        with pytest.raises(InterruptNotOpen, match=r"has no open question '1\.1'"):
            await run.answer("1.1", "again")
        assert await wait_for_interrupts(run) == {"1.2": {"step": 2}}
    async with asyncio.timeout(60), hw:  # The next execution asks the first question again.
        run = hw.run(run.id)
        while await wait_for_interrupts(run) != {"2.1": {"step": 1}}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(
            InterruptNotOpen, match=r"has no open question '1\.2'; open questions: 2\.1"
        ):
            await run.answer("1.2", "too early")
        await run.answer("2.1", "first")
        assert await wait_for_interrupts(run) == {"1.2": {"step": 2}}  # Still open.
        await run.answer("1.2", "second")
        assert await run.result() == ["first", "second"]
        with pytest.raises(Exception, match="has ended or is about to end"):
            await run.answer("1.2", "second")


@pytest.mark.proves("R4.15")
async def test_a_run_can_have_several_open_interrupts(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> list[Any]:
        return await asyncio.gather(*(ctx.interrupt(number) for number in range(3)))

    async with hw:
        run = await hw.start("asks")
        while len(interrupts := await run.interrupts()) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for call_id, number in reversed(interrupts.items()):
            await run.answer(call_id, number * 10)
        assert await run.result() == [0, 10, 20]


async def interrupt_results(run: RunHandle) -> list[tuple[Any, ...]]:
    """Return outcome, actor and answer of each closed interrupt of the run."""
    payloads = [
        json.loads(event.payload)
        async for event in run.events()
        if event.type == EventType.PERMISSION_RESULT
    ]
    return [(payload["outcome"], payload["by"], payload["answer"]) for payload in payloads]


@pytest.mark.proves("R4.15", "I3")
@pytest.mark.parametrize(
    ("count", "result"),
    [(9, ("answered", "ann", {"approved": True})), (900, ("timed_out", None, None))],
)
async def test_answer_given_before_a_crash_applies_only_to_the_same_question(
    url: str, count: int, result: tuple[Any, ...]
) -> None:
    async with Headway(url) as before:
        claim = claim_of(await start_run(before.store, job="asks"))
        await before.store.apply(OpenInterrupt(claim, "delete", document({"delete": 9})))
        await before.run(claim.run_id).answer("delete", {"approved": True}, by="ann")
        await orphan_run(before.store, claim.run_id)
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt({"delete": count}, call_id="delete", timeout_s=0)

    async with asyncio.timeout(60), hw:
        run = hw.run(claim.run_id)
        assert await run.result() == result[-1]
        assert await interrupt_results(run) == [result]


@pytest.mark.proves("R4.15")
async def test_an_answer_given_as_its_question_times_out_does_not_apply_to_the_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, apply, answered = Headway(url), SqlStore.apply, list[str]()

    async def answer_before_it_is_closed(store: SqlStore, command: Command[Any]) -> Any:
        if isinstance(command, CloseInterrupt) and not answered:
            answered.append(command.call_id)
            await hw.run(command.claim.run_id).answer(command.call_id, "yes")
        return await apply(store, command)

    @hw.job()
    async def asks(ctx: RunContext) -> list[Any]:
        return [
            await ctx.interrupt({"delete": count}, call_id="delete", timeout_s=0)
            for count in (9, 900)
        ]

    async with asyncio.timeout(60), hw:
        monkeypatch.setattr(SqlStore, "apply", answer_before_it_is_closed)
        run = await hw.start("asks")
        assert await run.result() == ["yes", None]
        assert [outcome for outcome, *_ in await interrupt_results(run)] == [
            "answered",
            "timed_out",
        ]


@pytest.mark.proves("R4.15")
async def test_two_interrupts_cannot_be_open_under_one_call_id(url: str) -> None:
    hw, has_tried = Headway(url), asyncio.Event()

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        first = asyncio.create_task(ctx.interrupt({"delete": 9}, call_id="delete"))
        await wait_for_interrupts(hw.run(ctx.run_id))
        with pytest.raises(InvalidInput, match="call_id 'delete' is already open"):
            await ctx.interrupt({"delete": 900}, call_id="delete")
        has_tried.set()
        return await first

    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        await has_tried.wait()
        assert await wait_for_interrupts(run) == {"delete": {"delete": 9}}
        await run.answer("delete", "yes")
        assert await run.result() == "yes"


async def answer_during_a_read(
    hw: Headway,
    read_counts: list[int],
    is_waiting: asyncio.Event,
    is_late: asyncio.Event,
    may_end: asyncio.Event,
) -> RunHandle:
    """Start a run and answer its second interrupt while its own inbox read is delayed."""
    run = await hw.start("asks")
    while read_counts != [0]:  # noqa: ASYNC110 - The first has read, and waits for a hint.
        await asyncio.sleep(0.01)
    is_waiting.set()
    await is_late.wait()
    await run.answer("second", "yes")  # This wakes the first, which reads next.
    await asyncio.sleep(0.1)
    may_end.set()
    return run


@pytest.mark.proves("R4.9")
async def test_an_inbox_read_delivers_answers_to_other_waiters(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first waiter reads the second one's answer, which the second one's own read missed."""
    hw, apply, read_counts = Headway(url), SqlStore.apply, list[int]()
    is_waiting, is_late, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def delay_the_second_read(store: SqlStore, command: Command[Any]) -> Any:
        answer = await apply(store, command)
        if isinstance(command, ConsumeInbox):
            read_counts.append(len(answer))
            if read_counts == [0, 0]:
                is_late.set()
                await may_end.wait()
        return answer

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        first = asyncio.create_task(ctx.interrupt("first", call_id="first"))
        await is_waiting.wait()
        second = await ctx.interrupt("second", call_id="second")
        await hw.run(ctx.run_id).answer("first", "done")
        return [await first, second]

    monkeypatch.setattr(SqlStore, "apply", delay_the_second_read)
    async with asyncio.timeout(60), hw:
        run = await answer_during_a_read(hw, read_counts, is_waiting, is_late, may_end)
        assert await run.result(20) == ["done", "yes"]
    assert read_counts[2] == 1


@pytest.mark.proves("R4.9")
async def test_a_cancelled_inbox_read_is_repeated_for_other_waiters(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first waiter is cancelled while its read consumes the second waiter's answer."""
    hw, apply, read_counts = Headway(url), SqlStore.apply, list[int]()
    is_waiting, is_late, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    has_taken = asyncio.Event()

    async def delay_the_second_read(store: SqlStore, command: Command[Any]) -> Any:
        answer = await apply(store, command)
        if isinstance(command, ConsumeInbox):
            read_counts.append(len(answer))
            if read_counts == [0, 0]:
                is_late.set()
                await may_end.wait()
            elif read_counts == [0, 0, 1]:
                has_taken.set()
                await asyncio.Event().wait()
        return answer

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        first = asyncio.create_task(ctx.interrupt("first", call_id="first"))
        await is_waiting.wait()
        second = asyncio.create_task(ctx.interrupt("second", call_id="second"))
        await has_taken.wait()
        first.cancel()
        return await second

    monkeypatch.setattr(SqlStore, "apply", delay_the_second_read)
    async with asyncio.timeout(60), hw:
        run = await answer_during_a_read(hw, read_counts, is_waiting, is_late, may_end)
        assert await run.result(20) == "yes"


def headway_with_conversation(url: str) -> Headway:
    hw = Headway(url, stop_wait_s=0)

    @hw.job(retries=1)
    async def converses(ctx: RunContext) -> list[Any]:
        if ctx.generation > 1:
            return await ctx.messages()
        await ctx.interrupt("go on?")
        if ctx.canceled:
            await asyncio.Event().wait()
        raise RuntimeError("the tool failed")

    return hw


@pytest.mark.proves("I3")
async def test_a_message_sent_during_an_open_interrupt_survives_a_stop(url: str) -> None:
    async with asyncio.timeout(60), headway_with_conversation(url) as hw:
        run = await hw.start("converses")
        await wait_for_interrupts(run)
        await run.send("use the blue one", deliver="when_listening")
    async with asyncio.timeout(60), headway_with_conversation(url) as hw:
        assert await hw.run(run.id).result() == ["use the blue one"]


@pytest.mark.proves("I3")
async def test_a_message_sent_during_an_open_interrupt_survives_a_retry(url: str) -> None:
    async with asyncio.timeout(60), headway_with_conversation(url) as hw:
        run = await hw.start("converses")
        await wait_for_interrupts(run)
        await run.send("use the blue one", deliver="when_listening")
        await run.answer("1.1", "yes")  # The waiter reads the inbox after the message was stored.
        assert await run.result() == ["use the blue one"]


@pytest.mark.proves("I3")
async def test_a_message_survives_a_cancelled_inbox_read(url: str) -> None:
    hw, may_read = Headway(url), asyncio.Event()

    @hw.job()
    async def reads(ctx: RunContext) -> list[Any]:
        await may_read.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await ctx.messages()
        return [*await ctx.messages(), *await ctx.messages()]

    async with hw:
        run = await hw.start("reads")
        await run.send("one", deliver="when_listening")
        await run.send("two", deliver="when_listening")
        may_read.set()
        assert await run.result() == ["one", "two"]


@pytest.mark.proves("I3")
async def test_a_message_survives_a_commit_of_unknown_outcome(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, apply, read_counts = Headway(url), SqlStore.apply, list[int | None]()

    async def lose_the_first(store: SqlStore, command: Command[Any]) -> Any:
        answer = await apply(store, command)
        if isinstance(command, ConsumeInbox):
            read_counts.append(command.replay_after_seq)
            if len(read_counts) == 1:
                raise OutcomeUnknown("the cable was pulled")
        return answer

    @hw.job()
    async def reads(ctx: RunContext) -> list[Any]:
        await ctx.sleep(0.01)
        return [*await ctx.messages(), *await ctx.messages()]

    async with hw:
        await hw.lanes.set("main", is_paused=True)
        run = await hw.start("reads")
        await run.send("one", deliver="when_listening")
        monkeypatch.setattr(SqlStore, "apply", lose_the_first)
        await hw.lanes.set("main", is_paused=False)
        assert await run.result() == ["one"]
    assert read_counts == [None, 0, None]
