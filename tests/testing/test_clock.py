"""The clock for tests of whole programs: hours pass without waiting."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from headway import Backoff, Headway, InvalidInput, RunContext, RunFailed, RunStatus
from headway.adapters.files.part import OpenPart
from headway.core.ids import SECOND_US, Instant
from headway.core.run.admission import OnConflict
from headway.testing import SteppingClock
from headway.testing.plugin import headway, headway_clock, open_headway
from tests.engine.scenes import records_of

# Imported as fixtures, because the plugin itself may or may not be loaded here.
__all__ = ["headway", "headway_clock", "open_headway"]

pytestmark = pytest.mark.backend("sqlite")

HOUR_S = 3_600


async def test_sleeping_job_resumes_exactly_when_its_time_has_come(
    headway: Headway, headway_clock: SteppingClock
) -> None:
    woken: list[Instant] = []

    @headway.job(timeout_s=None)
    async def nap(ctx: RunContext) -> str:
        for _ in range(3):
            await ctx.sleep(HOUR_S)
            woken.append(headway_clock.now())
        return "rested"

    began = headway_clock.now()
    run = await headway.start("nap")
    await headway_clock.advance(seconds=HOUR_S - 1)
    assert woken == []
    await headway_clock.advance(seconds=3 * HOUR_S)
    assert await run.result() == "rested"
    assert [(at - began) / SECOND_US for at in woken] == [HOUR_S, 2 * HOUR_S, 3 * HOUR_S]


async def test_clock_waits_for_files_that_jobs_write(
    headway: Headway, headway_clock: SteppingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = OpenPart.finish

    def finish_on_a_slow_disk(part: OpenPart) -> int:
        time.sleep(0.1)
        return finish(part)

    monkeypatch.setattr(OpenPart, "finish", finish_on_a_slow_disk)

    @headway.job(timeout_s=None)
    async def save(ctx: RunContext) -> None:
        for number in range(3):
            await ctx.sleep(HOUR_S)
            async with ctx.file(f"{number}.txt") as file:
                await file.write(b"whole")

    run = await headway.start("save")
    await headway_clock.advance(seconds=3 * HOUR_S)
    assert await run.status() is RunStatus.SUCCEEDED


@pytest.mark.proves("R2.8")
async def test_queue_timeout_and_execution_timeout_follow_the_clock(
    headway: Headway, headway_clock: SteppingClock
) -> None:
    started = asyncio.Event()

    @headway.job(timeout_s=60, queue_timeout_s=30, concurrency=1)
    async def long(ctx: RunContext) -> None:
        started.set()
        await asyncio.Event().wait()

    first = await headway.start("long")
    await started.wait()
    second = await headway.start("long")
    await headway_clock.advance(seconds=29)
    assert await second.status() is RunStatus.QUEUED
    await headway_clock.advance(seconds=1)
    assert await second.status() is RunStatus.TIMED_OUT
    assert await first.status() is RunStatus.RUNNING
    await headway_clock.advance(seconds=30)
    assert await first.status() is RunStatus.TIMED_OUT


async def test_retries_follow_the_clock(headway: Headway, headway_clock: SteppingClock) -> None:
    attempts: list[int] = []

    @headway.job(retries=2, backoff=Backoff(base_s=HOUR_S, cap_s=HOUR_S))
    async def flaky(ctx: RunContext) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise OSError("no answer")
        return "at last"

    run = await headway.start("flaky")
    await headway_clock.advance(seconds=0)
    assert attempts == [1]
    await headway_clock.advance(seconds=2 * HOUR_S)
    assert await run.result() == "at last"


async def test_unanswered_interrupt_times_out_by_the_clock(
    headway: Headway, headway_clock: SteppingClock
) -> None:
    @headway.job()
    async def ask(ctx: RunContext) -> object:
        answer = await ctx.interrupt("may I?", timeout_s=300)
        await ctx.sleep(60)
        return answer

    began = headway_clock.now()
    run = await headway.start("ask")
    await headway_clock.advance(seconds=299)
    assert await run.status() is RunStatus.RUNNING
    await headway_clock.advance(seconds=HOUR_S)
    assert await run.result() is None
    ended_at = (await run.record()).run.ended_at
    assert ended_at is not None
    assert ended_at - began == 360 * SECOND_US, (
        "the next wait did not start when the interrupt timed out"
    )


async def test_answer_in_time_is_returned(headway: Headway, headway_clock: SteppingClock) -> None:
    @headway.job()
    async def ask(ctx: RunContext) -> object:
        return await ctx.interrupt("may I?", timeout_s=300)

    run = await headway.start("ask")
    await headway_clock.advance(seconds=200)
    await run.answer("1.1", {"approved": True})
    assert await run.result() == {"approved": True}


@pytest.mark.proves("I18")
async def test_schedule_fires_at_each_of_its_fire_times(
    open_headway: Callable[[Headway], AbstractAsyncContextManager[Headway]],
    headway_clock: SteppingClock,
) -> None:
    hw, fired = Headway("sqlite:///unused.db"), list[Instant]()

    @hw.job()
    async def tick(ctx: RunContext) -> None:
        fired.append(headway_clock.now())

    hw.schedule("*/10 * * * *", job="tick")
    async with open_headway(hw):
        await headway_clock.advance(seconds=HOUR_S)
    assert len(fired) == 6
    assert {at % (600 * SECOND_US) for at in fired} == {0}


@pytest.mark.proves("I1")
async def test_advancing_the_clock_does_not_expire_the_lease_of_a_running_job(
    headway: Headway, headway_clock: SteppingClock
) -> None:
    release = asyncio.Event()

    @headway.job(timeout_s=None)
    async def work(ctx: RunContext) -> int:
        await release.wait()
        return ctx.generation

    run = await headway.start("work")
    await headway_clock.advance(seconds=30 * 24 * HOUR_S)
    release.set()
    assert await run.result() == 1
    assert (await headway.doctor()).is_healthy


async def test_cancelling_run_is_ended_when_its_grace_period_is_over(
    headway: Headway, headway_clock: SteppingClock
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def wait_ignoring_cancel(wait: Callable[[], Awaitable[object]]) -> None:
        while not release.is_set():
            try:
                await wait()
            except asyncio.CancelledError:
                continue

    @headway.job()
    async def ignore_cancel(ctx: RunContext) -> None:
        started.set()
        await wait_ignoring_cancel(release.wait)

    run = await headway.start("ignore_cancel", key="ann")
    await started.wait()
    await run.cancel(grace_s=HOUR_S)
    await headway_clock.advance(seconds=HOUR_S - 1)
    assert await run.status() is RunStatus.CANCELLING
    await headway_clock.advance(seconds=1)
    assert await run.status() is RunStatus.CANCELED
    with pytest.raises(RunFailed):
        await run.result()
    release.set()


async def test_open_headway_restores_the_callers_headway(
    open_headway: Callable[[Headway], AbstractAsyncContextManager[Headway]],
) -> None:
    hw = Headway("postgresql://nowhere.invalid/prod")

    @hw.job()
    async def hello(ctx: RunContext) -> str:
        return "hello"

    async with open_headway(hw) as opened:
        assert opened is hw
        assert await (await hw.start("hello", on_conflict=OnConflict.JOIN)).result() == "hello"
        assert len(await records_of(hw)) == 1
    assert hw._config.urls == ("postgresql://nowhere.invalid/prod",)
    assert hw._config.clock is None


async def test_clock_refuses_to_go_back(headway_clock: SteppingClock) -> None:
    with pytest.raises(InvalidInput, match="seconds must be 0 to"):
        await headway_clock.advance(seconds=-1)
