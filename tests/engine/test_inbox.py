"""Answers that nobody asked for, and messages whose way was cut."""

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
from tests.contract.scenes import orphaned, running

pytestmark = pytest.mark.backend("sqlite")


async def asked(run: RunHandle) -> dict[str, Any]:
    """What the run asks, once it does."""
    while not (found := await run.interrupts()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return found


@pytest.mark.proves("R4.15")
async def test_an_answer_is_refused_unless_it_is_the_first_to_an_open_question(
    url: str,
) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.job()
    async def asks(ctx: RunContext) -> list[Any]:
        return [await ctx.interrupt({"step": 1}), await ctx.interrupt({"step": 2})]

    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        assert await asked(run) == {"1.1": {"step": 1}}
        with pytest.raises(InterruptNotOpen, match=r"does not ask '7\.7' now: it asks: 1\.1"):
            await run.answer("7.7", "?")
        await run.answer("1.1", "first")
        with pytest.raises(InterruptNotOpen, match=r"does not ask '1\.1' now"):
            await run.answer("1.1", "again")
        assert await asked(run) == {"1.2": {"step": 2}}
    async with asyncio.timeout(60), hw:  # Executed again, it asks the first question again.
        run = hw.run(run.id)
        while await asked(run) != {"2.1": {"step": 1}}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(InterruptNotOpen, match=r"does not ask '1\.2' now: it asks: 2\.1"):
            await run.answer("1.2", "too early")
        await run.answer("2.1", "first")
        assert await asked(run) == {"1.2": {"step": 2}}  # Open as before.
        await run.answer("1.2", "second")
        assert await run.result() == ["first", "second"]
        with pytest.raises(Exception, match="is over or on its way to its end"):
            await run.answer("1.2", "second")


@pytest.mark.proves("R4.15")
async def test_several_questions_are_open_at_once(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> list[Any]:
        return await asyncio.gather(*(ctx.interrupt(number) for number in range(3)))

    async with hw:
        run = await hw.start("asks")
        while len(found := await run.interrupts()) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for call_id, number in reversed(found.items()):
            await run.answer(call_id, number * 10)
        assert await run.result() == [0, 10, 20]


async def results(run: RunHandle) -> list[tuple[Any, ...]]:
    """How its questions came to their ends."""
    told = [
        json.loads(event.payload)
        async for event in run.events()
        if event.type == EventType.PERMISSION_RESULT
    ]
    return [(one["outcome"], one["by"], one["answer"]) for one in told]


@pytest.mark.proves("R4.15", "I3")
@pytest.mark.parametrize(
    ("count", "result"),
    [(9, ("answered", "ann", {"approved": True})), (900, ("timed_out", None, None))],
)
async def test_an_approval_that_the_crash_overtook_counts_for_what_was_approved_alone(
    url: str, count: int, result: tuple[Any, ...]
) -> None:
    async with Headway(url) as before:
        claim = claim_of(await running(before.store, job="asks"))
        await before.store.apply(OpenInterrupt(claim, "delete", document({"delete": 9})))
        await before.run(claim.run_id).answer("delete", {"approved": True}, by="ann")
        await orphaned(before.store, claim.run_id)
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt({"delete": count}, call_id="delete", timeout_s=0)

    async with asyncio.timeout(60), hw:
        run = hw.run(claim.run_id)
        assert await run.result() == result[-1]
        assert await results(run) == [result]


@pytest.mark.proves("R4.15")
async def test_an_answer_at_the_last_moment_is_not_taken_for_the_next_question(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, apply, answered = Headway(url), SqlStore.apply, list[str]()

    async def answered_before_it_is_closed(store: SqlStore, command: Command[Any]) -> Any:
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
        monkeypatch.setattr(SqlStore, "apply", answered_before_it_is_closed)
        run = await hw.start("asks")
        assert await run.result() == ["yes", None]
        assert [outcome for outcome, *_ in await results(run)] == ["answered", "timed_out"]


@pytest.mark.proves("R4.15")
async def test_two_questions_are_not_open_under_one_name(url: str) -> None:
    hw, has_tried = Headway(url), asyncio.Event()

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        first = asyncio.create_task(ctx.interrupt({"delete": 9}, call_id="delete"))
        await asked(hw.run(ctx.run_id))
        with pytest.raises(InvalidInput, match="call_id: 'delete' is asked now"):
            await ctx.interrupt({"delete": 900}, call_id="delete")
        has_tried.set()
        return await first

    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        await has_tried.wait()
        assert await asked(run) == {"delete": {"delete": 9}}
        await run.answer("delete", "yes")
        assert await run.result() == "yes"


async def answered_late(
    hw: Headway,
    looks: list[int],
    is_waiting: asyncio.Event,
    is_late: asyncio.Event,
    may_end: asyncio.Event,
) -> RunHandle:
    """A run whose second question is answered while its own look, in vain, is held up."""
    run = await hw.start("asks")
    while looks != [0]:  # noqa: ASYNC110 - The first has looked, and waits for news.
        await asyncio.sleep(0.01)
    is_waiting.set()
    await is_late.wait()
    await run.answer("second", "yes")  # Which wakes the first: it is the next to look.
    await asyncio.sleep(0.1)
    may_end.set()
    return run


@pytest.mark.proves("R4.9")
async def test_who_looks_tells_the_others_what_it_has_found_for_them(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one's look takes the answer to the second, whose own look has found nothing."""
    hw, apply, looks = Headway(url), SqlStore.apply, list[int]()
    is_waiting, is_late, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def held_up(store: SqlStore, command: Command[Any]) -> Any:
        answer = await apply(store, command)
        if isinstance(command, ConsumeInbox):
            looks.append(len(answer))
            if looks == [0, 0]:
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

    monkeypatch.setattr(SqlStore, "apply", held_up)
    async with asyncio.timeout(60), hw:
        run = await answered_late(hw, looks, is_waiting, is_late, may_end)
        assert await run.result(20) == ["done", "yes"]
    assert looks[2] == 1


@pytest.mark.proves("R4.9")
async def test_who_gives_up_in_the_middle_of_a_look_has_another_look_for_what_it_took(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one's look takes the answer to the second, and its job waits no longer."""
    hw, apply, looks = Headway(url), SqlStore.apply, list[int]()
    is_waiting, is_late, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    has_taken = asyncio.Event()

    async def held_up(store: SqlStore, command: Command[Any]) -> Any:
        answer = await apply(store, command)
        if isinstance(command, ConsumeInbox):
            looks.append(len(answer))
            if looks == [0, 0]:
                is_late.set()
                await may_end.wait()
            elif looks == [0, 0, 1]:
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

    monkeypatch.setattr(SqlStore, "apply", held_up)
    async with asyncio.timeout(60), hw:
        run = await answered_late(hw, looks, is_waiting, is_late, may_end)
        assert await run.result(20) == "yes"


def conversing(url: str) -> Headway:
    hw = Headway(url, stop_wait_s=0)

    @hw.job(retries=1)
    async def converses(ctx: RunContext) -> list[Any]:
        if ctx.generation > 1:
            return await ctx.messages()
        await ctx.interrupt("go on?")
        if ctx.cancelled:
            await asyncio.Event().wait()
        raise RuntimeError("the tool failed")

    return hw


@pytest.mark.proves("I3")
async def test_a_message_that_comes_while_a_question_is_open_survives_a_stop(url: str) -> None:
    async with asyncio.timeout(60), conversing(url) as hw:
        run = await hw.start("converses")
        await asked(run)
        await run.send("use the blue one", deliver="when_listening")
    async with asyncio.timeout(60), conversing(url) as hw:
        assert await hw.run(run.id).result() == ["use the blue one"]


@pytest.mark.proves("I3")
async def test_a_message_that_comes_while_a_question_is_open_survives_a_retry(url: str) -> None:
    async with asyncio.timeout(60), conversing(url) as hw:
        run = await hw.start("converses")
        await asked(run)
        await run.send("use the blue one", deliver="when_listening")
        await run.answer("1.1", "yes")  # Who hears of it looks, after the message has come.
        assert await run.result() == ["use the blue one"]


@pytest.mark.proves("I3")
async def test_a_message_survives_a_look_that_was_broken_off(url: str) -> None:
    hw, may_look = Headway(url), asyncio.Event()

    @hw.job()
    async def reads(ctx: RunContext) -> list[Any]:
        await may_look.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await ctx.messages()
        return [*await ctx.messages(), *await ctx.messages()]

    async with hw:
        run = await hw.start("reads")
        await run.send("one", deliver="when_listening")
        await run.send("two", deliver="when_listening")
        may_look.set()
        assert await run.result() == ["one", "two"]


@pytest.mark.proves("I3")
async def test_a_message_survives_a_commit_of_unknown_outcome(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, apply, looks = Headway(url), SqlStore.apply, list[int | None]()

    async def lose_the_first(store: SqlStore, command: Command[Any]) -> Any:
        answer = await apply(store, command)
        if isinstance(command, ConsumeInbox):
            looks.append(command.replay_after_seq)
            if len(looks) == 1:
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
    assert looks == [None, 0, None]
