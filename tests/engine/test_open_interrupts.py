"""A stop leaves interrupts open: the run is handed over with its question unanswered."""

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
from tests.engine.scenes import open_bare_store, records

pytestmark = pytest.mark.backend("sqlite")

FORM = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}


async def wait_for_interrupts(run: RunHandle, count: int = 1) -> dict[str, Any]:
    """Wait until the run has `count` open interrupts, and return them."""
    while len(interrupts := await run.interrupts()) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return interrupts


async def wait_for_second_execution(run: RunHandle) -> None:
    while (await run.record()).run.generation < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def interrupt_results(run: RunHandle) -> list[tuple[str, str, Any]]:
    payloads = [
        json.loads(event.payload)
        async for event in run.events()
        if event.type == EventType.PERMISSION_RESULT
    ]
    return [(payload["call_id"], payload["outcome"], payload["answer"]) for payload in payloads]


async def ask_async(ctx: RunContext) -> Any:
    return await ctx.interrupt("may I?")


def ask_blocking(ctx: BlockingRunContext) -> Any:
    return ctx.interrupt("may I?")


def headway_with_job(url: str, job: Callable[..., Any] = ask_async) -> Headway:
    hw = Headway(url)
    hw.job(name="asks")(job)
    return hw


both_kinds = pytest.mark.parametrize("job", [ask_async, ask_blocking])


@pytest.mark.proves("R4.9", "R6.5", "I25")
@both_kinds
async def test_a_stop_leaves_the_interrupt_open_for_the_next_execution(
    url: str, job: Callable[..., Any]
) -> None:
    async with asyncio.timeout(60), headway_with_job(url, job) as hw:
        run = await hw.start("asks")
        await wait_for_interrupts(run)
    async with open_bare_store(url) as store:
        (record,) = await records(store)
        (interrupt,) = await store.runs.interrupts(run.id)
    assert (record.run.status, record.run.instance_id) == (RunStatus.RUNNING, None)
    assert (interrupt.call_id, interrupt.answer) == ("1.1", None)
    async with asyncio.timeout(60), headway_with_job(url, job) as hw:
        run = hw.run(run.id)
        await wait_for_second_execution(run)
        assert list(await wait_for_interrupts(run)) == ["1.1"]
        await run.answer("1.1", {"approved": True}, by="eve")
        assert await run.result() == {"approved": True}
        assert await interrupt_results(run) == [("1.1", "answered", {"approved": True})]


@pytest.mark.proves("R4.9", "R6.5", "I3", "I25")
@both_kinds
async def test_an_answer_given_while_no_program_runs_is_received_once(
    url: str, job: Callable[..., Any]
) -> None:
    async with asyncio.timeout(60), headway_with_job(url, job) as hw:
        run = await hw.start("asks")
        await wait_for_interrupts(run)
    async with asyncio.timeout(60), Headway(url) as elsewhere:  # It does not have the job.
        await elsewhere.run(run.id).answer("1.1", "yes", by="eve")
        with pytest.raises(InterruptNotOpen):
            await elsewhere.run(run.id).answer("1.1", "no")
    async with asyncio.timeout(60), headway_with_job(url, job) as hw:
        run = hw.run(run.id)
        assert await run.result() == "yes"
        assert await interrupt_results(run) == [("1.1", "answered", "yes")]
        assert (await run.record()).run.unread_count == 0


@pytest.mark.proves("R4.15", "I25", "I26")
async def test_a_failed_attempt_withdraws_its_interrupt_and_the_next_may_open_it_again(
    url: str,
) -> None:
    has_retried, may_ask = asyncio.Event(), asyncio.Event()

    async def asks(ctx: RunContext) -> Any:
        if ctx.attempt == 1:
            tasks.append(asyncio.create_task(ctx.interrupt("may I?")))
            await wait_for_interrupts(hw.run(ctx.run_id))
            raise ValueError
        has_retried.set()
        await may_ask.wait()
        return await ctx.interrupt("may I?")

    tasks: list[asyncio.Task[Any]] = []
    hw = Headway(url)
    hw.job(name="asks", retries=1)(asks)
    async with asyncio.timeout(60), hw:
        run = await hw.start("asks")
        await has_retried.wait()
        assert await run.interrupts() == {}
        with pytest.raises(InterruptNotOpen):
            await run.answer("1.1", "too late")
        may_ask.set()
        assert list(await wait_for_interrupts(run)) == ["1.1"]
        await run.answer("1.1", "yes")
        assert await run.result() == "yes"
        assert await interrupt_results(run) == [
            ("1.1", "withdrawn", None),
            ("1.1", "answered", "yes"),
        ]


@pytest.mark.proves("R6.5", "I25")
async def test_open_interrupts_keep_their_call_ids_after_a_checkpoint(
    url: str,
) -> None:
    """Questions answered before the checkpoint are not asked again, so the numbers shift."""

    async def asks(ctx: RunContext) -> Any:
        if ctx.checkpoint is None:
            await ctx.interrupt("begin?")
            await ctx.save_checkpoint("begun")
        return await asyncio.gather(*(ctx.interrupt(f"page {page}?") for page in range(3)))

    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        run = await hw.start("asks")
        await run.answer(next(iter(await wait_for_interrupts(run))), "yes")
        before = await wait_for_interrupts(run, 3)
        assert before == {"1.2": "page 0?", "1.3": "page 1?", "1.4": "page 2?"}
    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        run = hw.run(run.id)
        await wait_for_second_execution(run)
        assert await wait_for_interrupts(run, 3) == before
        for call_id, question in before.items():
            await run.answer(call_id, question.upper())
        assert await run.result() == ["PAGE 0?", "PAGE 1?", "PAGE 2?"]
        assert len(await interrupt_results(run)) == 4


@pytest.mark.proves("R6.5")
async def test_equal_questions_each_receive_their_own_answer(url: str) -> None:
    async def asks(ctx: RunContext) -> Any:
        return await asyncio.gather(*(ctx.interrupt("again?") for _ in range(3)))

    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        run = await hw.start("asks")
        await wait_for_interrupts(run, 3)
    async with asyncio.timeout(60), Headway(url) as elsewhere:
        await elsewhere.run(run.id).answer("1.2", "second")
    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        run = hw.run(run.id)
        await run.answer("1.1", "first")
        await run.answer("1.3", "third")
        assert await run.result() == ["first", "second", "third"]


@pytest.mark.proves("R4.15", "I25")
async def test_an_execution_that_asks_another_question_withdraws_the_previous_one(
    url: str,
) -> None:
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt({"delete": 9 * ctx.generation})

    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        run = await hw.start("asks")
        await wait_for_interrupts(run)
    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        run = hw.run(run.id)
        while "2.1" not in await wait_for_interrupts(run):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(
            InterruptNotOpen, match=r"has no open question '1\.1'; open questions: 2\.1"
        ):
            await run.answer("1.1", "yes")
        await run.answer("2.1", "no")
        assert await run.result() == "no"
        assert [outcome for _, outcome, _ in await interrupt_results(run)] == [
            "withdrawn",
            "answered",
        ]


@pytest.mark.proves("R4.9", "I25")
async def test_a_stop_does_not_extend_the_timeout_of_an_interrupt(
    url: str,
) -> None:
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt("in time?", timeout_s=0.2, default="no answer")

    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        run = await hw.start("asks")
        await wait_for_interrupts(run)
    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        assert await hw.run(run.id).result() == "no answer"
        (_, outcome, _), *_ = await interrupt_results(hw.run(run.id))
        assert outcome == "timed_out"


@pytest.mark.proves("R4.9")
@pytest.mark.parametrize("is_plain", [False, True])
async def test_shutdown_denies_an_interrupt_that_was_opened_with_on_shutdown_deny(
    url: str, *, is_plain: bool
) -> None:
    async def asks(ctx: RunContext) -> Any:
        return await ctx.interrupt("may I?", on_shutdown="deny")

    def asks_blocking(ctx: BlockingRunContext) -> Any:
        return ctx.interrupt("may I?", on_shutdown="deny")

    async with (
        asyncio.timeout(60),
        headway_with_job(url, asks_blocking if is_plain else asks) as hw,
    ):
        run = await hw.start("asks")
        await wait_for_interrupts(run)
    async with open_bare_store(url) as store:
        (record,) = await records(store)
        page = await store.events.events(after_seq=0, limit=99, run_id=run.id)
    assert record.run.status is RunStatus.SUCCEEDED
    assert record.result == '{"approved":false,"reason":"shutdown"}'
    closed = [e for e in page.events if e.type == EventType.PERMISSION_RESULT]
    assert [json.loads(event.payload)["outcome"] for event in closed] == ["shutdown"]


@pytest.mark.proves("R4.9")
async def test_on_shutdown_deny_requires_a_schema_that_allows_a_denial(
    url: str,
) -> None:
    async def asks(ctx: RunContext, on_shutdown: Any) -> Any:
        with pytest.raises(InvalidInput) as refused:
            await ctx.interrupt("how many?", schema=FORM, on_shutdown=on_shutdown)
        return str(refused.value)

    async with asyncio.timeout(60), headway_with_job(url, asks) as hw:
        deny = await (await hw.start("asks", params={"on_shutdown": "deny"})).result()
        other = await (await hw.start("asks", params={"on_shutdown": "no"})).result()
    assert deny == ("on_shutdown: the denial does not match the schema: answer.count is missing")
    assert other == "on_shutdown must be 'hand_over' or 'deny', not 'no'"


@pytest.mark.proves("R4.9", "I25")
@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_cancel_does_not_answer_with_a_value_that_violates_the_schema(
    url: str, *, is_plain: bool
) -> None:
    answers: list[Any] = []

    async def asks(ctx: RunContext) -> Any:
        answers.append(await ctx.interrupt("how many?", schema=FORM))

    def asks_blocking(ctx: BlockingRunContext) -> Any:
        answers.append(ctx.interrupt("how many?", schema=FORM))

    async with (
        asyncio.timeout(60),
        headway_with_job(url, asks_blocking if is_plain else asks) as hw,
    ):
        run = await hw.start("asks")
        await wait_for_interrupts(run)
        await run.cancel()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
        assert await interrupt_results(run) == [("1.1", "cancelled", None)]
    assert answers == []
