"""The default time limits of runs, questions and compactions (R4.14)."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from headway import Headway, RunContext, RunStatus
from headway.core.ids import SECOND_US
from headway.core.run.events import Event
from headway.services.submit.run_handle import RunHandle
from headway.testing import SteppingClock
from headway.testing.plugin import headway, headway_clock, open_headway

__all__ = ["headway", "headway_clock", "open_headway"]

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.proves("R4.14")]

FLOW = {"start": "nap", "nodes": {"nap": {"kind": "timer", "params": {"ms": 1}}}, "edges": []}


async def limit_s(run: RunHandle) -> float | None:
    timeout_us = (await run.record()).run.timeout_us
    return None if timeout_us is None else timeout_us / SECOND_US


@pytest.fixture
async def hw(url: str) -> AsyncIterator[Headway]:
    """Open a Headway whose jobs are never executed; the tests only read their limits."""
    hw = Headway(url, execution_timeout_s=700)

    @hw.job
    async def usual(ctx: RunContext) -> None: ...

    @hw.job(timeout_s=20)
    async def short(ctx: RunContext) -> None: ...

    @hw.job(timeout_s=None)
    async def unlimited(ctx: RunContext) -> None: ...

    async with hw.without_engine():
        yield hw


async def test_a_job_without_a_timeout_gets_the_execution_timeout(hw: Headway) -> None:
    limits = {name: await limit_s(await hw.start(name)) for name in hw.jobs}
    assert limits == {"usual": 700, "short": 20, "unlimited": None}


async def test_a_submission_can_override_the_timeout(hw: Headway) -> None:
    assert await limit_s(await hw.submit("short", timeout_s=None)) is None
    assert await limit_s(await hw.submit("usual", timeout_s=5)) == 5
    assert await limit_s(await hw.submit("unlimited", timeout_s=5)) == 5


async def test_the_same_idempotency_key_with_another_timeout_is_another_request(
    hw: Headway,
) -> None:
    first = await hw.submit("short", idempotency_key="k")
    assert (await hw.submit("short", idempotency_key="k")).id == first.id
    with pytest.raises(Exception, match="a different request") as refused:
        await hw.submit("short", idempotency_key="k", timeout_s=None)
    assert type(refused.value).__name__ == "IdempotencyConflict"


async def test_a_flow_task_has_no_default_timeout(hw: Headway) -> None:
    """A flow may run for weeks, so only its calls have a default limit."""
    await hw.flows.publish("nap", FLOW)
    assert await limit_s(await hw.flows.start("nap")) is None
    assert await limit_s(await hw.flows.start("nap", timeout_s=9)) == 9


async def test_scheduled_runs_and_children_have_the_timeout_of_their_job(url: str) -> None:
    hw = Headway(url, execution_timeout_s=700)
    limits: list[float | None] = []

    @hw.job
    async def usual(ctx: RunContext) -> None: ...

    @hw.job(timeout_s=None)
    async def unlimited(ctx: RunContext) -> None: ...

    @hw.job
    async def parent(ctx: RunContext) -> None:
        children = await ctx.start(usual), await ctx.start(unlimited)
        limits.extend([await limit_s(hw.run(child.id)) for child in children])

    hw.schedule("0 0 1 1 *", job=usual)
    hw.schedule("0 0 1 1 *", job=unlimited)
    assert {schedule.name: schedule.timeout_s for schedule in hw.schedules.values()} == {
        "usual": 700,
        "unlimited": None,
    }
    async with hw:
        await (await hw.start(parent)).result()
    assert limits == [700, None]


async def test_a_run_that_exceeds_the_execution_timeout_is_timed_out(
    headway: Headway, headway_clock: SteppingClock
) -> None:
    @headway.job
    async def usual(ctx: RunContext) -> None:
        await ctx.sleep(1801)

    @headway.job(timeout_s=None)
    async def unlimited(ctx: RunContext) -> str:
        await ctx.sleep(30 * 24 * 3600)
        return "done"

    late, patient = await headway.start(usual), await headway.start(unlimited)
    await headway_clock.advance(seconds=1799)
    assert await late.status() is RunStatus.RUNNING
    await headway_clock.advance(seconds=2)
    assert await late.status() is RunStatus.TIMED_OUT
    await headway_clock.advance(seconds=30 * 24 * 3600)
    assert await patient.result() == "done"


async def test_waiting_for_a_person_counts_towards_the_execution_timeout(
    headway: Headway, headway_clock: SteppingClock
) -> None:
    has_asked = asyncio.Event()

    @headway.job
    async def ask(ctx: RunContext) -> Any:
        has_asked.set()
        return await ctx.interrupt("?", timeout_s=3600)

    run = await headway.start(ask)
    await has_asked.wait()
    await headway_clock.advance(seconds=1801)
    assert await run.status() is RunStatus.TIMED_OUT


async def test_an_interrupt_without_a_timeout_uses_the_permission_timeout(url: str) -> None:
    hw = Headway(url, permission_timeout_s=77)

    @hw.job
    async def ask(ctx: RunContext) -> Any:
        return await ctx.interrupt("?")

    @hw.job
    def ask_blocking(ctx: Any) -> Any:
        return ctx.interrupt("?")

    async with asyncio.timeout(30), hw:
        for job in (ask, ask_blocking):
            run = await hw.start(job)
            event = await first_event(run, "permission_request")
            assert json.loads(event.payload)["timeout_s"] == 77
            await run.cancel()


async def first_event(run: RunHandle, kind: str) -> Event:
    async for event in run.events():
        if event.type == kind:
            return event
    raise AssertionError(f"the run ended without {kind}")


async def test_a_compaction_without_a_timeout_uses_the_compaction_timeout(url: str) -> None:
    hw = Headway(url, compaction_timeout_s=0.05)

    @hw.job
    async def compact(ctx: RunContext) -> str:
        started_at = datetime.now().astimezone()
        try:
            async with ctx.listening(), ctx.compacting():
                await asyncio.Event().wait()
        except TimeoutError:
            assert (datetime.now().astimezone() - started_at).total_seconds() >= 0.05
            return "timed out"
        return "never"

    async with asyncio.timeout(30), hw:
        assert await (await hw.start(compact)).result() == "timed out"


@pytest.mark.proves("R4.12")
async def test_redis_lease_expires_after_the_configured_time(url: str) -> None:
    unreachable = "redis://127.0.0.1:1"  # Nothing is stored; only the limits are read.
    async with Headway(url, redis_url=unreachable, lease_ttl_s=40) as hw:
        assert hw.hint_relay is not None
        hint_bus: Any = hw.hint_relay._hint_bus
        assert hint_bus._limits.lease_ttl_s == 40
