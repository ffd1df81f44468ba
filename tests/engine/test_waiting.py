"""Jobs that wait release their slot, and return ahead of queued runs (I5, I9)."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from headway import Headway, InterruptNotOpen, RunContext
from headway.core.errors import IdempotencyConflict, InvalidInput, RunNotActive
from headway.core.run.status import RunStatus
from tests.engine.scenes import Gauge

pytestmark = pytest.mark.backend("sqlite")


async def open_call_ids(hw: Headway) -> dict[str, str]:
    """Return the runs that wait for an answer, each with the call id of its interrupt."""
    page = await hw.store.events.events(after_seq=0, limit=1_000)
    return {
        str(event.run_id): json.loads(event.payload)["call_id"]
        for event in page.events
        if event.type == "permission_request"
    }


async def wait_until_asked(hw: Headway, count: int) -> dict[str, str]:
    while len(call_ids := await open_call_ids(hw)) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return call_ids


@pytest.mark.proves("I5")
async def test_runs_that_waited_for_a_person_resume_before_queued_runs(
    url: str,
) -> None:
    hw, gauge, release = Headway(url), Gauge(), asyncio.Event()

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        async with gauge.counted(f"{ctx.key} before"):
            pass
        answer = await ctx.interrupt({"tool": "delete"})
        async with gauge.counted(f"{ctx.key} after"):
            await asyncio.sleep(0.05)
        return answer

    @hw.job()
    async def works(ctx: RunContext) -> None:
        async with gauge.counted(ctx.key):
            await release.wait()

    async with hw:
        asking = [await hw.start("asks", key=f"asks-{n}") for n in range(3)]
        call_ids = await wait_until_asked(hw, 3)
        for n in range(6):
            await hw.start("works", key=f"works-{n}")
        await gauge.wait_for_count(3)
        for run in asking:
            await run.answer(call_ids[run.id], {"approved": True})
        while {(await run.record()).run.queue_rank for run in asking} != {0}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        release.set()
        for run in asking:
            assert await run.result(20) == {"approved": True}
    assert gauge.peak == 3
    later = gauge.begun[6:]
    assert {name.partition(" ")[0] for name in later[:3]} == {"asks-0", "asks-1", "asks-2"}


@pytest.mark.proves("R4.9")
async def test_an_interrupt_without_an_answer_in_time_returns_none(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        return [await ctx.interrupt("may I?", timeout_s=0.05), await ctx.interrupt(1, timeout_s=0)]

    async with hw:
        assert await (await hw.start("asks")).result(10) == [None, None]


@pytest.mark.proves("R4.9")
async def test_a_cancel_answers_the_interrupt_and_then_ends_the_job(url: str) -> None:
    hw = Headway(url)
    answers: list[Any] = []

    @hw.job()
    async def asks(ctx: RunContext) -> None:
        answers.append(await ctx.interrupt("may I?"))
        answers.append(ctx.canceled)
        await asyncio.Event().wait()

    async with hw:
        run = await hw.start("asks")
        await wait_until_asked(hw, 1)
        assert await run.cancel() == "requested"
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert answers == [{"approved": False, "reason": "cancelled"}, True]


@pytest.mark.proves("I5")
async def test_a_sleeping_run_releases_its_slot(url: str) -> None:
    hw, order = Headway(url), list[str]()

    @hw.job()
    async def sleeps(ctx: RunContext) -> None:
        order.append("asleep")
        await ctx.sleep(1.0)
        order.append("awake")

    @hw.job()
    async def works(ctx: RunContext) -> None:
        order.append("worked")

    async with hw:
        await hw.lanes.set("main", max_concurrent=1)
        sleeping = await hw.start("sleeps", key="ann")
        await (await hw.start("works", key="bob")).result(10)
        await sleeping.result(10)
    assert order == ["asleep", "worked", "awake"]


@pytest.mark.proves("I3")
async def test_messages_reach_the_job_in_order_and_are_refused_after_the_run_ends(url: str) -> None:
    hw, may_read = Headway(url), asyncio.Event()

    @hw.job()
    async def listens(ctx: RunContext) -> Any:
        await may_read.wait()
        return [await ctx.messages(), await ctx.messages()]

    async with hw:
        run = await hw.start("listens")
        for number in range(3):
            await run.send({"number": number}, by="ann", deliver="when_listening")
        may_read.set()
        assert await run.result(10) == [[{"number": n} for n in range(3)], []]
        with pytest.raises(RunNotActive):
            await run.send("too late")


@pytest.mark.proves("R1.10")
async def test_progress_is_stored_at_most_ten_times_a_second_and_keeps_the_last_value(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def reports(ctx: RunContext) -> None:
        for number in range(1_000):
            await ctx.progress(done=number)

    async with hw:
        run = await hw.start("reports")
        await run.result(10)
        kinds = [event.type async for event in run.events()]
        record = await run.record()
    assert record.progress == '{"done":999}'
    assert kinds.count("run_progress") <= 5


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("run_state_changed", "is reserved for headway"),
        ("flow_changed", "is reserved for headway"),
        ("resync", "is reserved for headway"),
        ("server_closing", "is reserved for headway"),
        ("a photo", "one word"),
        ("7", "one word"),
        ("false", "is a JSON literal"),
        (7, "must be text"),
    ],
)
async def test_an_event_with_a_reserved_or_invalid_type_is_refused(
    url: str, kind: str, reason: str
) -> None:
    hw = Headway(url)

    @hw.job()
    async def emits_reserved(ctx: RunContext) -> str:
        with pytest.raises(InvalidInput, match=reason):
            await ctx.emit(kind, {"to": "failed"})
        return "refused"

    async with hw:
        assert await (await hw.start("emits_reserved")).result(10) == "refused"


async def test_a_timeout_while_waiting_for_the_result_does_not_end_the_run(url: str) -> None:
    hw, release = Headway(url), asyncio.Event()

    @hw.job()
    async def works(ctx: RunContext) -> str:
        await release.wait()
        return "done"

    async with hw:
        run = await hw.start("works")
        with pytest.raises(TimeoutError):
            await run.result(0.05)
        release.set()
        assert await run.result(10) == "done"


@pytest.mark.proves("I5")
async def test_a_job_that_ends_its_wait_regains_its_slot_before_it_continues(
    url: str,
) -> None:
    hw, gauge = Headway(url), Gauge()

    @hw.job()
    async def impatient(ctx: RunContext) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ctx.interrupt("may I?")
        async with gauge.counted(ctx.key):
            await asyncio.sleep(0.05)

    async with hw:
        runs = [await hw.start("impatient", key=f"key-{n}") for n in range(10)]
        for run in runs:
            await run.result(30)
    assert gauge.peak <= 3


@pytest.mark.proves("R4.15")
@pytest.mark.parametrize("limit_s", [0, 0.1])  # While it is being opened, and while it waits.
async def test_an_interrupt_is_closed_when_its_job_stops_waiting_for_it(
    url: str, limit_s: float
) -> None:
    hw, has_continued, may_end = Headway(url), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def impatient(ctx: RunContext) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(limit_s):
                await ctx.interrupt("may I?", call_id="may-i", default="yes")
        has_continued.set()
        await may_end.wait()

    async with asyncio.timeout(60), hw:
        run = await hw.start("impatient")
        await has_continued.wait()
        assert await run.interrupts() == {}
        with pytest.raises(InterruptNotOpen):
            await run.answer("may-i", {"approved": True})
        may_end.set()
        await run.result()
        payloads = [json.loads(e.payload) async for e in run.events() if e.type.startswith("perm")]
    seen = [
        (payload.get("question"), payload.get("outcome"), payload.get("answer"))
        for payload in payloads
    ]
    assert seen in ([], [("may I?", None, None), (None, "timed_out", None)])
    assert seen or not limit_s


@pytest.mark.proves("I6")
async def test_a_run_without_a_key_can_be_submitted_idempotently(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext, page: int = 0) -> int:
        return page

    async with hw:
        first = await hw.submit("work", idempotency_key="once")
        again = await hw.submit("work", idempotency_key="once")
        assert again.id == first.id
        with pytest.raises(IdempotencyConflict):
            await hw.submit("work", params={"page": 1}, idempotency_key="once")


@pytest.mark.proves("I5")
async def test_a_job_keeps_its_slot_if_its_wait_is_cancelled_at_once(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def sleeps(ctx: RunContext) -> str | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await ctx.sleep(3_600)
        return (await hw.run(ctx.run_id).record()).run.slot

    async with hw:
        assert await (await hw.start("sleeps")).result() == "main"
