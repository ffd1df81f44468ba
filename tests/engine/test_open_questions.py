"""A stop of the process answers no question: the run is handed over with the question open."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from headway import (
    BlockingRunContext,
    Headway,
    InterruptNotOpen,
    InvalidInput,
    RunContext,
    RunHandle,
)
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus
from tests.engine.scenes import looked_at, records

pytestmark = pytest.mark.backend("sqlite")

FORM = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}


async def asked(run: RunHandle, count: int = 1) -> dict[str, Any]:
    """Return the open questions of the run once there are so many."""
    while len(found := await run.interrupts()) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return found


async def executed_again(run: RunHandle) -> None:
    while (await run.record()).run.generation < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def results(run: RunHandle) -> list[tuple[str, str, Any]]:
    told = [
        json.loads(event.payload)
        async for event in run.events()
        if event.type == EventType.PERMISSION_RESULT
    ]
    return [(one["call_id"], one["outcome"], one["answer"]) for one in told]


async def ask_async(ctx: RunContext) -> Any:
    return await ctx.interrupt("may I?")


def ask_plainly(ctx: BlockingRunContext) -> Any:
    return ctx.interrupt("may I?")


def opened(url: str, job: Callable[..., Any] = ask_async) -> Headway:
    hw = Headway(url)
    hw.job(name="asks")(job)
    return hw


both_kinds = pytest.mark.parametrize("job", [ask_async, ask_plainly])


@pytest.mark.proves("R4.9", "R6.5", "I25")
@both_kinds
async def test_a_stop_leaves_the_question_open_and_the_next_execution_waits_for_it(
    url: str, job: Callable[..., Any]
) -> None:
    async with asyncio.timeout(60), opened(url, job) as hw:
        run = await hw.start("asks")
        await asked(run)
    async with looked_at(url) as store:
        (record,) = await records(store)
        (question,) = await store.runs.interrupts(run.id)
    assert (record.run.status, record.run.instance_id) == (RunStatus.RUNNING, None)
    assert (question.call_id, question.answer) == ("1.1", None)
    async with asyncio.timeout(60), opened(url, job) as hw:
        run = hw.run(run.id)
        await executed_again(run)
        assert list(await asked(run)) == ["1.1"]
        await run.answer("1.1", {"approved": True}, by="eve")
        assert await run.result() == {"approved": True}
        assert await results(run) == [("1.1", "answered", {"approved": True})]


@pytest.mark.proves("R4.9", "R6.5", "I3", "I25")
@both_kinds
async def test_an_answer_given_while_no_program_runs_is_received_once(
    url: str, job: Callable[..., Any]
) -> None:
    async with asyncio.timeout(60), opened(url, job) as hw:
        run = await hw.start("asks")
        await asked(run)
    async with asyncio.timeout(60), Headway(url) as elsewhere:  # It does not have the job.
        await elsewhere.run(run.id).answer("1.1", "yes", by="eve")
        with pytest.raises(InterruptNotOpen):
            await elsewhere.run(run.id).answer("1.1", "no")
    async with asyncio.timeout(60), opened(url, job) as hw:
        run = hw.run(run.id)
        assert await run.result() == "yes"
        assert await results(run) == [("1.1", "answered", "yes")]
        assert (await run.record()).run.unread_count == 0


@pytest.mark.proves("R4.15", "I25", "I26")
async def test_a_failed_attempt_withdraws_what_it_asked_and_the_next_may_ask_it_again(
    url: str,
) -> None:
    has_retried, may_ask = asyncio.Event(), asyncio.Event()

    async def asks(ctx: RunContext) -> Any:
        if ctx.attempt == 1:
            left.append(asyncio.create_task(ctx.interrupt("may I?")))
            await asked(hw.run(ctx.run_id))
            raise ValueError
        has_retried.set()
        await may_ask.wait()
        return await ctx.interrupt("may I?")

    left: list[asyncio.Task[Any]] = []
    hw = Headway(url)
    hw.job(name="asks", retries=1)(asks)
    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        await has_retried.wait()
        assert await run.interrupts() == {}
        with pytest.raises(InterruptNotOpen):
            await run.answer("1.1", "too late")
        may_ask.set()
        assert list(await asked(run)) == ["1.1"]
        await run.answer("1.1", "yes")
        assert await run.result() == "yes"
        assert await results(run) == [("1.1", "withdrawn", None), ("1.1", "answered", "yes")]


@pytest.mark.proves("R6.5", "I25")
async def test_several_open_questions_keep_their_names_whatever_was_asked_before_them(
    url: str,
) -> None:
    """Questions answered before the checkpoint are not asked again, so the numbers shift."""

    async def asks(ctx: RunContext) -> Any:
        if ctx.checkpoint is None:
            await ctx.interrupt("begin?")
            await ctx.save_checkpoint("begun")
        return await asyncio.gather(*(ctx.interrupt(f"page {page}?") for page in range(3)))

    async with asyncio.timeout(60), opened(url, asks) as hw:
        run = await hw.start("asks")
        await run.answer(next(iter(await asked(run))), "yes")
        before = await asked(run, 3)
        assert before == {"1.2": "page 0?", "1.3": "page 1?", "1.4": "page 2?"}
    async with asyncio.timeout(60), opened(url, asks) as hw:
        run = hw.run(run.id)
        await executed_again(run)
        assert await asked(run, 3) == before
        for call_id, question in before.items():
            await run.answer(call_id, question.upper())
        assert await run.result() == ["PAGE 0?", "PAGE 1?", "PAGE 2?"]
        assert len(await results(run)) == 4


@pytest.mark.proves("R6.5")
async def test_of_equal_questions_each_gets_the_answer_given_to_it_once(url: str) -> None:
    async def asks(ctx: RunContext) -> Any:
        return await asyncio.gather(*(ctx.interrupt("again?") for _ in range(3)))

    async with asyncio.timeout(60), opened(url, asks) as hw:
        run = await hw.start("asks")
        await asked(run, 3)
    async with asyncio.timeout(60), Headway(url) as elsewhere:
        await elsewhere.run(run.id).answer("1.2", "second")
    async with asyncio.timeout(60), opened(url, asks) as hw:
        run = hw.run(run.id)
        await run.answer("1.1", "first")
        await run.answer("1.3", "third")
        assert await run.result() == ["first", "second", "third"]


@pytest.mark.proves("R4.15", "I25")
async def test_an_execution_that_asks_something_else_withdraws_what_was_asked_before(
    url: str,
) -> None:
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt({"delete": 9 * ctx.generation})

    async with asyncio.timeout(60), opened(url, asks) as hw:
        run = await hw.start("asks")
        await asked(run)
    async with asyncio.timeout(60), opened(url, asks) as hw:
        run = hw.run(run.id)
        while "2.1" not in await asked(run):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(InterruptNotOpen, match=r"does not ask '1\.1' now: it asks: 2\.1"):
            await run.answer("1.1", "yes")
        await run.answer("2.1", "no")
        assert await run.result() == "no"
        assert [outcome for _, outcome, _ in await results(run)] == ["withdrawn", "answered"]


@pytest.mark.proves("R4.9", "I25")
async def test_a_question_is_over_when_its_own_time_is_not_later_because_of_a_stop(
    url: str,
) -> None:
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt("in time?", timeout_s=0.2, default="nobody said")

    async with asyncio.timeout(60), opened(url, asks) as hw:
        run = await hw.start("asks")
        await asked(run)
    async with asyncio.timeout(60), opened(url, asks) as hw:
        assert await hw.run(run.id).result() == "nobody said"
        (_, outcome, _), *_ = await results(hw.run(run.id))
        assert outcome == "timed_out"


@pytest.mark.proves("R4.9")
@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_job_that_wants_it_is_denied_by_a_stop_and_may_end_with_that(
    url: str, *, is_plain: bool
) -> None:
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt("may I?", on_shutdown="deny")

    def asks_plainly(ctx: BlockingRunContext) -> Any:
        return ctx.interrupt("may I?", on_shutdown="deny")

    async with asyncio.timeout(60), opened(url, asks_plainly if is_plain else asks) as hw:
        run = await hw.start("asks")
        await asked(run)
    async with looked_at(url) as store:
        (record,) = await records(store)
        page = await store.events.events(after_seq=0, limit=99, run_id=run.id)
    assert record.run.status is RunStatus.SUCCEEDED
    assert record.result == '{"approved":false,"reason":"shutdown"}'
    told = [json.loads(e.payload) for e in page.events if e.type == EventType.PERMISSION_RESULT]
    assert [one["outcome"] for one in told] == ["shutdown"]


@pytest.mark.proves("R4.9")
async def test_a_question_whose_schema_allows_no_denial_cannot_be_denied_by_a_stop(
    url: str,
) -> None:
    async def asks(ctx: RunContext, on_shutdown: Any) -> Any:
        with pytest.raises(InvalidInput) as refused:
            await ctx.interrupt("how many?", schema=FORM, on_shutdown=on_shutdown)
        return str(refused.value)

    async with asyncio.timeout(60), opened(url, asks) as hw:
        deny = await (await hw.start("asks", params={"on_shutdown": "deny"})).result()
        other = await (await hw.start("asks", params={"on_shutdown": "no"})).result()
    assert deny == ("on_shutdown: the denial does not fit the schema: answer.count is missing")
    assert other == "on_shutdown: must be 'hand_over' or 'deny', not 'no'"


@pytest.mark.proves("R4.9", "I25")
@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_cancel_invents_no_answer_that_does_not_fit_the_schema(
    url: str, *, is_plain: bool
) -> None:
    heard: list[Any] = []

    async def asks(ctx: RunContext) -> Any:
        heard.append(await ctx.interrupt("how many?", schema=FORM))

    def asks_plainly(ctx: BlockingRunContext) -> Any:
        heard.append(ctx.interrupt("how many?", schema=FORM))

    async with asyncio.timeout(60), opened(url, asks_plainly if is_plain else asks) as hw:
        run = await hw.start("asks")
        await asked(run)
        await run.cancel()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
        assert await results(run) == [("1.1", "cancelled", None)]
    assert heard == []
