"""Retries: the run stays `running`, keeps its key, and has an event per retry (R2.6)."""

import json
from typing import Any

import pytest

from headway import Backoff, Headway, RunContext, RunFailed
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus

pytestmark = pytest.mark.backend("sqlite")

NO_DELAY = Backoff(base_s=0.0)


async def retry_events(hw: Headway) -> list[dict[str, Any]]:
    page = await hw.store.events.events(after_seq=0, limit=1_000)
    return [json.loads(event.payload) for event in page.events if event.type == EventType.RETRIED]


@pytest.mark.proves("R2.6")
async def test_each_retry_of_a_failure_has_an_event(url: str) -> None:
    hw = Headway(url)
    seen: list[tuple[int, Any]] = []

    @hw.job(retries=3, backoff=NO_DELAY)
    async def work(ctx: RunContext) -> str:
        seen.append((ctx.attempt, ctx.checkpoint))
        await ctx.save_checkpoint({"attempt": ctx.attempt})
        if ctx.attempt < 3:
            raise OSError(f"no answer to {ctx.attempt}")
        return "at last"

    async with hw:
        run = await hw.start("work", key="ann")
        assert await run.result(10) == "at last"
        assert await retry_events(hw) == [
            {"attempt": n, "delay_s": 0.0, "error": {"code": "error", "message": message}}
            for n, message in [(1, "OSError: no answer to 1"), (2, "OSError: no answer to 2")]
        ]
        states = [
            json.loads(event.payload)["to"]
            async for event in run.events()
            if event.type == EventType.STATE_CHANGED
        ]
    assert states == ["queued", "running", "succeeded"]
    assert seen == [(1, None), (2, {"attempt": 1}), (3, {"attempt": 2})]


@pytest.mark.proves("R2.1")
async def test_a_run_fails_after_its_last_attempt(url: str) -> None:
    hw = Headway(url)

    @hw.job(retries=2, backoff=NO_DELAY)
    async def work(ctx: RunContext) -> None:
        raise OSError(f"attempt {ctx.attempt}")

    async with hw:
        run = await hw.start("work")
        with pytest.raises(RunFailed, match="OSError: attempt 3"):
            await run.result(10)
        assert len(await retry_events(hw)) == 2


@pytest.mark.proves("R2.6")
async def test_a_run_that_waits_for_its_retry_keeps_its_key_and_frees_its_slot(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job(retries=1, backoff=Backoff(base_s=3_600.0, cap_s=3_600.0))
    async def fails(ctx: RunContext) -> None:
        raise OSError

    @hw.job()
    async def works(ctx: RunContext) -> str:
        return ctx.key

    async with hw:
        await hw.lanes.set("main", max_concurrent=1)
        failing = await hw.start("fails", key="ann")
        behind = await hw.start("works", key="ann", on_conflict="enqueue")
        other = await hw.start("works", key="bob")
        assert await other.result(10) == "bob"
        assert await behind.status() is RunStatus.QUEUED
        record = await failing.record()
        assert record.run.status is RunStatus.RUNNING
        assert (record.run.slot, record.run.attempt) == (None, 2)
        # No instance holds it while it waits, so the cancel ends it at once.
        assert await failing.cancel() == "canceled"
        assert await behind.result(10) == "ann"


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_retry_delay_doubles_up_to_its_cap(share: float) -> None:
    backoff = Backoff(base_s=1.0, cap_s=10.0)
    delays_s = [backoff.delay_s(attempt, share=share) for attempt in (1, 2, 3, 4, 5, 999)]
    assert delays_s == [share * bound_s for bound_s in (1, 2, 4, 8, 10, 10)]
