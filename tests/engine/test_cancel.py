"""Cancel: queued runs end at once, running runs clean up, and the result is accurate."""

import asyncio
from typing import Any

import pytest

from headway import Headway, RunContext, RunFailed
from headway.core.command.run.cancel import CancelResult, RequestCancel
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus, row_status_name
from headway.services.engine import engine
from tests.engine.scenes import open_bare_store

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I11")
async def test_a_queued_run_that_is_canceled_never_starts(url: str) -> None:
    hw, started, release = Headway(url), asyncio.Event(), asyncio.Event()
    begun: list[str] = []

    @hw.job()
    async def work(ctx: RunContext, name: str) -> None:
        begun.append(name)
        started.set()
        await release.wait()

    async with hw:
        first, second, third = [
            await hw.start("work", key="ann", params={"name": n}, on_conflict=OnConflict.ENQUEUE)
            for n in ("first", "second", "third")
        ]
        await started.wait()
        assert await second.cancel(reason="no longer wanted") is CancelResult.CANCELED
        with pytest.raises(
            RunFailed, match=f"{second.id} is canceled: no longer wanted$"
        ) as failed:
            await second.result()
        release.set()
        await asyncio.gather(first.result(), third.result())
        record = await second.record()
    assert failed.value.error == {"code": "canceled", "message": "no longer wanted"}
    assert begun == ["first", "third"]
    assert record.run.started_at is None
    assert record.cancel == '{"files":"keep","reason":"no longer wanted","by":""}'


@pytest.mark.proves("I11")
async def test_a_running_run_cleans_up_and_is_canceled(url: str) -> None:
    hw, started = Headway(url), asyncio.Event()
    cleaned: list[str] = []

    @hw.job()
    async def work(ctx: RunContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.progress(cleaned=True)
            cleaned.append(ctx.run_id)

    async with hw:
        run = await hw.start("work", key="ann")
        await started.wait()
        assert await run.cancel() is CancelResult.REQUESTED
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert await run.cancel() is CancelResult.TOO_LATE
        started.clear()
        successor = await hw.start("work", key="ann")
        await started.wait()
        await successor.cancel()
        await successor.wait_for_end()
    assert failed.value.status is RunStatus.CANCELED
    assert cleaned == [run.id, successor.id]


@pytest.mark.proves("I11")
async def test_progress_that_resembles_a_cancel_event_cancels_nothing(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> str:
        await ctx.progress(**{"from": "running", "to": "cancelling"})
        await ctx.progress(done=True)
        return "done"

    async with hw:
        assert await (await hw.start("work")).result() == "done"


@pytest.mark.proves("I11")
async def test_a_cancel_by_another_process_is_seen_at_the_next_poll(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    hw, started = Headway(url, lease_ttl_s=3.0), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        started.set()
        await asyncio.Event().wait()

    async with hw, open_bare_store(url) as elsewhere:
        run = await hw.start("work")
        await started.wait()
        result = await elsewhere.apply(RequestCancel(run_id=run.id))
        assert result is CancelResult.REQUESTED
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I11")
@pytest.mark.slow
async def test_a_job_that_cleans_up_is_not_cancelled_a_second_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, started = Headway(url, lease_ttl_s=3.0), asyncio.Event()
    cleaned: list[Any] = []

    async def wait_for_renewal() -> None:
        (before,) = await hw.store.runs.instances()
        while (await hw.store.runs.instances()) == [before]:
            continue

    @hw.job()
    async def work(ctx: RunContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):  # Each poll finds the run cancelling.
                await wait_for_renewal()
            cleaned.append(ctx.run_id)

    async with hw:
        run = await hw.start("work")
        await started.wait()
        await run.cancel()
        await run.wait_for_end()
    assert cleaned == [run.id]


@pytest.mark.proves("R1.12")
async def test_a_cancel_returns_at_once_and_the_run_ends_after_its_cleanup(
    url: str,
) -> None:
    hw, started, may_end = Headway(url), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()

    async with hw:
        run = await hw.start("work", key="ann")
        await started.wait()
        assert await run.cancel() is CancelResult.REQUESTED
        assert await run.status() is RunStatus.CANCELLING
        assert row_status_name(await run.status(), has_started=True) == "Running"
        may_end.set()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("R1.12")
async def test_progress_of_the_last_run_stays_visible_after_failure_or_cancel(url: str) -> None:
    hw, has_reported = Headway(url), asyncio.Event()

    @hw.job()
    async def counts(ctx: RunContext, fails: bool) -> None:
        await ctx.progress(downloaded=3, skipped=1)
        if fails:
            raise ValueError
        has_reported.set()
        await asyncio.Event().wait()

    async with hw:
        failed = await hw.start("counts", key="ann", params={"fails": True})
        await failed.wait_for_end()
        canceled = await hw.start("counts", key="bob", params={"fails": False})
        await has_reported.wait()
        await canceled.cancel()
        await canceled.wait_for_end()
    async with open_bare_store(url) as store:
        stored = [await store.runs.run(run.id) for run in (failed, canceled)]
    assert [record and record.progress for record in stored] == ['{"downloaded":3,"skipped":1}'] * 2
