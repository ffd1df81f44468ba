"""Who has waited goes on when it has a slot again, and not before (I5)."""

import asyncio
from typing import Any

import pytest

from headway import Headway, RunContext, RunHandle
from headway.adapters.sql.read_runs import SqlRunReader
from headway.core.command.cancel import RequestCancel
from headway.core.run.status import RunStatus
from headway.services import context, engine
from headway.services.execution import Execution
from tests.service.scenes import Gauge, looked_at

pytestmark = pytest.mark.backend("sqlite")


async def until_slotless(run: RunHandle) -> None:
    while (await run.record()).run.slot is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_i5_one_that_is_cancelled_while_it_waits_does_not_go_on_without_a_slot(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel comes from elsewhere, so it is heard of only after the wait."""
    monkeypatch.setattr(context, "SLOT_KEPT_S", 0.0)
    hw, went_on = Headway(url, lease_ttl_s=3.0), list[str]()

    @hw.job()
    async def waits(ctx: RunContext) -> None:
        await ctx.sleep(0.3)
        went_on.append(ctx.run_id)

    async with hw, looked_at(url) as elsewhere:
        run = await hw.start("waits")
        await until_slotless(run)
        await elsewhere.apply(RequestCancel(run_id=run.id))
        assert (await run.ended()).run.status is RunStatus.CANCELED
    assert went_on == []


async def test_i5_a_look_from_before_the_wait_gives_nobody_a_slot(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "SLOT_KEPT_S", 0.0)
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
    monkeypatch.setattr(engine, "LOOK_S", 0.05)
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


async def test_i8_a_slot_whose_answer_was_lost_is_found_also_when_messages_wait(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "SLOT_KEPT_S", 0.0)
    got_slot, lost = Execution.got_slot, list[str]()

    def lose_the_first(self: Execution) -> None:
        if lost:
            got_slot(self)
        elif self.awaited_slot is not None:
            lost.append(self.claimed.run_id)

    monkeypatch.setattr(Execution, "got_slot", lose_the_first)
    hw = Headway(url, lease_ttl_s=3.0)

    @hw.job()
    async def waits(ctx: RunContext) -> Any:
        await ctx.sleep(0.1)
        return await ctx.messages()

    async with hw:
        run = await hw.start("waits")
        await until_slotless(run)
        await run.send("hello")
        assert await run.result(20) == ["hello"]
