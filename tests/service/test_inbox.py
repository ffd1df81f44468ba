"""Answers that nobody asked for, and messages whose way was cut."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from headway import Headway, QuestionNotOpen, RunContext, RunHandle
from headway.adapters.sql.store import SqlStore
from headway.core.command.command import Command
from headway.core.command.inbox import ConsumeInbox
from headway.core.errors import OutcomeUnknown

pytestmark = pytest.mark.backend("sqlite")


async def asked(run: RunHandle) -> dict[str, Any]:
    """What the run asks, once it does."""
    while not (found := await run.questions()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return found


async def test_r4_15_an_answer_is_refused_unless_it_is_the_first_to_an_open_question(
    url: str,
) -> None:
    hw = Headway(url, stop_wait_s=0)

    @hw.job()
    async def asks(ctx: RunContext) -> list[Any]:
        answers = [await ctx.interrupt({"step": 1}), await ctx.interrupt({"step": 2})]
        if ctx.cancelled:  # The second was answered by the stop.
            await asyncio.Event().wait()
        return answers

    async with hw:
        run = await hw.start("asks")
        assert await asked(run) == {"1.1": {"step": 1}}
        with pytest.raises(QuestionNotOpen, match=r"does not ask '7\.7' now: it asks: 1\.1"):
            await run.answer("7.7", "?")
        await run.answer("1.1", "first")
        with pytest.raises(QuestionNotOpen, match=r"does not ask '1\.1' now"):
            await run.answer("1.1", "again")
        assert await asked(run) == {"1.2": {"step": 2}}
    async with hw:  # Executed anew, it asks anew.
        run = hw.run(run.id)
        assert await asked(run) == {"2.1": {"step": 1}}
        with pytest.raises(QuestionNotOpen, match=r"does not ask '1\.2' now: it asks: 2\.1"):
            await run.answer("1.2", "late")
        await run.answer("2.1", "first")
        await asked(run)
        await run.answer("2.2", "second")
        assert await run.result() == ["first", "second"]
        with pytest.raises(Exception, match="is over or on its way to its end"):
            await run.answer("2.2", "second")


async def test_r4_15_several_questions_are_open_at_once(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> list[Any]:
        return await asyncio.gather(*(ctx.interrupt(number) for number in range(3)))

    async with hw:
        run = await hw.start("asks")
        while len(found := await run.questions()) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for call_id, number in reversed(found.items()):
            await run.answer(call_id, number * 10)
        assert await run.result() == [0, 10, 20]


async def test_i3_a_message_survives_a_look_that_was_broken_off(url: str) -> None:
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
        await run.send("one")
        await run.send("two")
        may_look.set()
        assert await run.result() == ["one", "two"]


async def test_i3_a_message_survives_a_commit_of_unknown_outcome(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, apply, looks = Headway(url), SqlStore.apply, list[int | None]()

    async def lose_the_first(store: SqlStore, command: Command[Any]) -> Any:
        answer = await apply(store, command)
        if isinstance(command, ConsumeInbox):
            looks.append(command.again_after)
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
        await run.send("one")
        monkeypatch.setattr(SqlStore, "apply", lose_the_first)
        await hw.lanes.set("main", is_paused=False)
        assert await run.result() == ["one"]
    assert looks == [None, 0, None]
