"""A run that waited continues only when it has a slot again (I5)."""

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
from headway.services.context import run_context
from headway.services.context.execution import Execution
from headway.services.engine import engine
from tests.engine.scenes import Gauge, open_bare_store
from tests.engine.test_waiting import wait_until_asked

pytestmark = pytest.mark.backend("sqlite")


async def wait_until_slotless(run: RunHandle) -> None:
    while (await run.record()).run.slot is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.proves("I5")
async def test_a_run_cancelled_while_it_waits_does_not_continue_without_a_slot(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel comes from another process, so it is seen only after the wait."""
    monkeypatch.setattr(run_context, "SHORT_WAIT_S", 0.0)
    hw, continued = Headway(url, lease_ttl_s=3.0), list[str]()

    @hw.job()
    async def waits(ctx: RunContext) -> None:
        await ctx.sleep(0.3)
        continued.append(ctx.run_id)

    async with hw, open_bare_store(url) as elsewhere:
        run = await hw.start("waits")
        await wait_until_slotless(run)
        await elsewhere.apply(RequestCancel(run_id=run.id))
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert continued == []


@pytest.mark.proves("I5")
async def test_a_poll_that_began_before_the_wait_does_not_grant_a_slot(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_context, "SHORT_WAIT_S", 0.0)
    held_runs = SqlRunReader.held_runs
    seen, may_return, polls_again = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def read_and_return_later(self: SqlRunReader, *arguments: Any, **options: Any) -> Any:
        if may_return.is_set():
            polls_again.set()
        held = await held_runs(self, *arguments, **options)
        if any(run.slot is not None for run in held) and not seen.is_set():
            seen.set()
            await may_return.wait()
        return held

    monkeypatch.setattr(SqlRunReader, "held_runs", read_and_return_later)
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
        await gauge.wait_for_count(1)
        while (await waiting.record()).run.queue_rank is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        may_return.set()
        await polls_again.wait()
        release.set()
        await asyncio.gather(waiting.result(10), working.result(10))
    assert gauge.peak == 1


@pytest.mark.proves("I8")
async def test_a_slot_grant_that_was_lost_is_found_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_context, "SHORT_WAIT_S", 0.0)
    grant_slot, lost_run_ids = Execution.grant_slot, list[str]()

    def lose_the_first_grant(self: Execution) -> None:
        if lost_run_ids:
            grant_slot(self)
        elif self.slot_future is not None:
            lost_run_ids.append(self.claimed.run_id)

    monkeypatch.setattr(Execution, "grant_slot", lose_the_first_grant)
    hw = Headway(url, lease_ttl_s=3.0)

    @hw.job()
    async def waits(ctx: RunContext) -> Any:
        await ctx.sleep(1.0)  # Long enough to be seen without a slot.
        return await ctx.messages()

    async with hw:
        run = await hw.start("waits")
        await wait_until_slotless(run)
        await run.send("hello", deliver="when_listening")
        assert await run.result(20) == ["hello"]


@pytest.mark.proves("I5")
async def test_overlapping_waits_release_the_slot_once_and_regain_it_after_the_last(
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
        await wait_until_asked(hw, 1)
        await (await hw.start("works", key="bob")).result(10)
        first, second = await asking.interrupts()
        await asking.answer(first, "yes")
        await (await hw.start("works", key="bob")).result(10)
        await asking.answer(second, "no")
        assert await asking.result(10) == ["yes", "no"]
        kinds = [event.type async for event in asking.events()]
    assert (kinds.count(EventType.WAITING), kinds.count(EventType.WOKEN)) == (1, 1)


class ManualClock(SystemClock):
    """A clock that the test advances. A sleep is recorded and returns at once."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.slept_s: list[float] = []

    def monotonic_s(self) -> float:
        return self.ahead_s

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)


@pytest.mark.proves("I5")
async def test_the_time_taken_to_release_the_slot_counts_towards_the_sleep(
    url: str,
) -> None:
    clock = ManualClock()
    hw = Headway(url, clock=clock)

    @hw.job()
    async def sleeps(ctx: RunContext) -> None:
        await ctx.sleep(60)
        await ctx.sleep(30)

    def release_slowly(events: Sequence[Event]) -> None:
        if any(event.type == EventType.WAITING for event in events):
            clock.ahead_s += 40

    async with hw:
        hw.store.listen(release_slowly)
        await (await hw.start("sleeps")).result(10)
    assert clock.slept_s == [20, 0]
