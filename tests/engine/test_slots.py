"""Who has waited goes on when it has a slot again, and not before (I5)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headway import Headway, RunContext, RunHandle
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.adapters.system.system_clock import SystemClock
from headway.core.command.run.cancel import RequestCancel
from headway.core.run.events import Event, EventType
from headway.core.run.status import RunStatus
from headway.services.context import run_context as context
from headway.services.context.execution import Execution
from headway.services.engine import engine
from tests.engine.scenes import Gauge, looked_at
from tests.engine.test_waiting import until_asked

pytestmark = pytest.mark.backend("sqlite")


async def until_slotless(run: RunHandle) -> None:
    while (await run.record()).run.slot is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.proves("I5")
async def test_one_that_is_cancelled_while_it_waits_does_not_go_on_without_a_slot(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel comes from elsewhere, so it is heard of only after the wait."""
    monkeypatch.setattr(context, "SHORT_WAIT_S", 0.0)
    hw, went_on = Headway(url, lease_ttl_s=3.0), list[str]()

    @hw.job()
    async def waits(ctx: RunContext) -> None:
        await ctx.sleep(0.3)
        went_on.append(ctx.run_id)

    async with hw, looked_at(url) as elsewhere:
        run = await hw.start("waits")
        await until_slotless(run)
        await elsewhere.apply(RequestCancel(run_id=run.id))
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert went_on == []


@pytest.mark.proves("I5")
async def test_a_look_from_before_the_wait_gives_nobody_a_slot(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "SHORT_WAIT_S", 0.0)
    look = SqlRunReader.runs_held_by
    seen, tell, looks_again = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def look_and_tell_later(self: SqlRunReader, *what: Any, **more: Any) -> Any:
        if tell.is_set():
            looks_again.set()
        held = await look(self, *what, **more)
        if any(run.slot is not None for run in held) and not seen.is_set():
            seen.set()
            await tell.wait()
        return held

    monkeypatch.setattr(SqlRunReader, "runs_held_by", look_and_tell_later)
    monkeypatch.setattr(engine, "POLL_S", 0.05)
    hw, gauge, release = Headway(url, lease_ttl_s=3.0), Gauge(), asyncio.Event()

    @hw.job()
    async def waits(ctx: RunContext) -> None:
        await seen.wait()
        await ctx.sleep(0.1)
        async with gauge.counted(ctx.key):
            pass

    @hw.job()
    async def works(ctx: RunContext) -> None:
        async with gauge.counted(ctx.key):
            await release.wait()

    async with hw:
        await hw.lanes.set("main", max_concurrent=1)
        waiting = await hw.start("waits", key="ann")
        await seen.wait()
        working = await hw.start("works", key="bob")
        await gauge.reaches(1)
        while (await waiting.record()).run.queue_rank is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        tell.set()
        await looks_again.wait()
        release.set()
        await asyncio.gather(waiting.result(10), working.result(10))
    assert gauge.peak == 1


@pytest.mark.proves("I8")
async def test_a_slot_whose_answer_was_lost_is_found_also_when_messages_wait(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "SHORT_WAIT_S", 0.0)
    got_slot, lost = Execution.grant_slot, list[str]()

    def lose_the_first(self: Execution) -> None:
        if lost:
            got_slot(self)
        elif self.slot_future is not None:
            lost.append(self.claimed.run_id)

    monkeypatch.setattr(Execution, "got_slot", lose_the_first)
    hw = Headway(url, lease_ttl_s=3.0)

    @hw.job()
    async def waits(ctx: RunContext) -> Any:
        await ctx.sleep(1.0)  # Long enough to be seen without a slot.
        return await ctx.messages()

    async with hw:
        run = await hw.start("waits")
        await until_slotless(run)
        await run.send("hello", deliver="when_listening")
        assert await run.result(20) == ["hello"]


@pytest.mark.proves("I5")
async def test_of_waits_that_overlap_the_first_gives_the_slot_back_and_the_last_gets_it(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def asks(ctx: RunContext) -> Any:
        return await asyncio.gather(ctx.interrupt("may I?"), ctx.interrupt("and this?"))

    @hw.job()
    async def works(ctx: RunContext) -> None:
        pass

    async with hw:
        await hw.lanes.set("main", max_concurrent=1)
        asking = await hw.start("asks", key="ann")
        await until_asked(hw, 1)
        await (await hw.start("works", key="bob")).result(10)
        first, second = await asking.interrupts()
        await asking.answer(first, "yes")
        await (await hw.start("works", key="bob")).result(10)
        await asking.answer(second, "no")
        assert await asking.result(10) == ["yes", "no"]
        kinds = [event.type async for event in asking.events()]
    assert (kinds.count(EventType.WAITING), kinds.count(EventType.WOKEN)) == (1, 1)


class MovedClock(SystemClock):
    """It moves when it is told to; who sleeps by it is noted, and goes on at once."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.slept_s: list[float] = []

    def monotonic_s(self) -> float:
        return self.ahead_s

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)


@pytest.mark.proves("I5")
async def test_the_time_that_it_takes_to_give_the_slot_back_is_part_of_the_sleep(
    url: str,
) -> None:
    clock = MovedClock()
    hw = Headway(url, clock=clock)

    @hw.job()
    async def sleeps(ctx: RunContext) -> None:
        await ctx.sleep(60)
        await ctx.sleep(30)

    def give_back_slowly(events: Sequence[Event]) -> None:
        if any(event.type == EventType.WAITING for event in events):
            clock.ahead_s += 40

    async with hw:
        hw.store.listen(give_back_slowly)
        await (await hw.start("sleeps")).result(10)
    assert clock.slept_s == [20, 0]
