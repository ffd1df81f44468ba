"""A job that returns when asked to end: canceled after a cancel, repeated after a stop."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headway import BlockingRunContext, CancelResult, Headway, RunContext, RunHandle
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.protocol import Command
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.settle import Complete
from headway.core.run.run import RunRecord
from headway.core.run.status import RunStatus
from tests.engine.folders import contents, wait_until
from tests.engine.scenes import open_bare_store

pytestmark = pytest.mark.backend("sqlite")

Started = Callable[[], None]


async def async_job(ctx: RunContext, started: Started) -> str:
    async with ctx.file("1.txt") as file:
        await file.write(b"whole")
    await ctx.save_checkpoint({"page": 1})
    started()
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return "stopped"


def plain_job(ctx: BlockingRunContext, started: Started) -> str:
    with ctx.file("1.txt") as file:
        file.write(b"whole")
    ctx.save_checkpoint({"page": 1})
    started()
    while not ctx.canceled:
        time.sleep(0.005)
    return "stopped"


async def asking_job(ctx: RunContext, started: Started) -> str:
    async with ctx.file("1.txt") as file:
        await file.write(b"whole")
    await ctx.save_checkpoint({"page": 1})
    started()
    answer = await ctx.interrupt("may I?")
    assert answer == {"approved": False, "reason": "cancelled"}
    return "denied"


def plain_asking_job(ctx: BlockingRunContext, started: Started) -> str:
    with ctx.file("1.txt") as file:
        file.write(b"whole")
    ctx.save_checkpoint({"page": 1})
    started()
    answer = ctx.interrupt("may I?")
    return "denied" if answer == {"approved": False, "reason": "cancelled"} else str(answer)


JOBS = [async_job, plain_job, asking_job, plain_asking_job]


def register(hw: Headway, job: Callable[..., Any]) -> asyncio.Event:
    """Register `job` as `work`. The event is set once it runs."""
    loop, started = asyncio.get_running_loop(), asyncio.Event()

    def report_started() -> None:
        loop.call_soon_threadsafe(started.set)

    if asyncio.iscoroutinefunction(job):

        @hw.job(name="work")
        async def work(ctx: RunContext) -> Any:
            return await job(ctx, report_started)

    else:

        @hw.job(name="work")
        def plain_work(ctx: BlockingRunContext) -> Any:
            return job(ctx, report_started)

    return started


async def begin(hw: Headway, started: asyncio.Event, job: Callable[..., Any]) -> RunHandle:
    run = await hw.start("work", key="ann")
    await started.wait()
    while "asking" in job.__name__ and not await run.interrupts():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return run


@pytest.mark.proves("R1.8", "R4.10", "I11")
@pytest.mark.parametrize("job", JOBS)
async def test_a_job_that_returns_after_its_cancel_was_delivered_is_canceled(
    url: str, tmp_path: Path, job: Callable[..., Any]
) -> None:
    hw = Headway(url)
    started = register(hw, job)
    async with asyncio.timeout(60), hw:
        run = await begin(hw, started, job)
        assert await run.cancel(by="ann", reason="enough") is CancelResult.REQUESTED
        ended = await run.wait_for_end()
        stages = [event.type async for event in run.events()]
        explained = await hw.explain(run.id)
    assert (ended.run.status, ended.result) == (RunStatus.CANCELED, None)
    assert ended.checkpoint == '{"page":1}'
    assert contents(tmp_path) == {"1.txt": "whole"}
    assert "run_cancel_delivered" in stages
    assert explained.sentence == "The run has ended: canceled (enough)."


@pytest.mark.proves("R1.8")
@pytest.mark.parametrize("job", JOBS)
async def test_a_cancel_can_delete_the_files_of_a_job_that_returns(
    url: str, tmp_path: Path, job: Callable[..., Any]
) -> None:
    hw = Headway(url)
    started = register(hw, job)
    async with asyncio.timeout(60), hw:
        run = await begin(hw, started, job)
        await run.cancel(files="delete")
        ended = await run.wait_for_end()
        await wait_until(lambda: contents(tmp_path) == {})
    assert (ended.run.status, ended.checkpoint) == (RunStatus.CANCELED, None)


@pytest.mark.proves("R1.8", "R2.5")
@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_job_that_ends_before_its_cancel_is_delivered_succeeds(
    url: str, monkeypatch: pytest.MonkeyPatch, *, is_plain: bool
) -> None:
    hw, apply = Headway(url), SqlStore.apply

    async def cancel_at_the_end(store: SqlStore, command: Command[Any]) -> Any:
        if isinstance(command, Complete):
            result = await apply(store, RequestCancel(run_id=command.claim.run_id))
            assert result is CancelResult.REQUESTED
        return await apply(store, command)

    @hw.job()
    async def work(ctx: RunContext) -> str:
        return "was done already"

    @hw.job()
    def plain(ctx: BlockingRunContext) -> str:
        return "was done already"

    async with asyncio.timeout(60), hw:
        monkeypatch.setattr(SqlStore, "apply", cancel_at_the_end)
        run = await hw.start("plain" if is_plain else "work")
        assert await run.result() == "was done already"
        assert await run.status() is RunStatus.SUCCEEDED


async def read_record(url: str, run: RunHandle) -> RunRecord:
    async with open_bare_store(url) as store:
        record = await store.runs.run(run.id)
    assert record is not None
    return record


@pytest.mark.proves("I3", "R1.9")
@pytest.mark.parametrize("job", [async_job, plain_job])
async def test_a_job_that_returns_because_its_process_stops_is_executed_again(
    url: str, job: Callable[..., Any]
) -> None:
    hw = Headway(url, stop_wait_s=0)
    started = register(hw, job)
    async with asyncio.timeout(60), hw:
        run = await begin(hw, started, job)
    record = await read_record(url, run)
    assert (record.run.status, record.result, record.run.death_count) == (
        RunStatus.RUNNING,
        None,
        0,
    )
    again = Headway(url)

    @again.job()
    async def work(ctx: RunContext) -> Any:
        return [ctx.generation, ctx.checkpoint]

    async with asyncio.timeout(60), again:
        assert await again.run(run.id).result() == [2, {"page": 1}]


@pytest.mark.proves("I1")
async def test_a_plain_job_that_ends_during_the_stop_succeeds(
    url: str,
) -> None:
    hw, may_end, started = Headway(url, stop_wait_s=0), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @hw.job()
    def plain(ctx: BlockingRunContext) -> str:
        loop.call_soon_threadsafe(started.set)
        may_end.wait()
        return "done"

    async with asyncio.timeout(60), hw:
        run = await hw.start("plain")
        await started.wait()
        loop.call_later(0.2, may_end.set)  # By then the stop has begun and waits for the job.
    record = await read_record(url, run)
    assert (record.run.status, record.result) == (RunStatus.SUCCEEDED, '"done"')


@pytest.mark.proves("R4.10")
async def test_a_job_can_read_why_it_must_end(url: str) -> None:
    endings: list[str | None] = []

    def headway_with_job() -> tuple[Headway, asyncio.Event]:
        hw, started = Headway(url, stop_wait_s=0), asyncio.Event()

        @hw.job()
        async def work(ctx: RunContext) -> None:
            endings.append(ctx.ending)
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                endings.append(ctx.ending)

        return hw, started

    hw, started = headway_with_job()
    async with asyncio.timeout(60), hw:
        run = await hw.start("work")
        await started.wait()
    hw, started = headway_with_job()
    async with asyncio.timeout(60), hw:
        await started.wait()
        await hw.run(run.id).cancel()
        await hw.run(run.id).wait_for_end()
    assert endings == [None, "shutdown", None, "cancelled"]
