"""Jobs that misbehave: each comes to a defined end, and other jobs are unaffected."""

import asyncio
import os
import sys
import threading
import time
from typing import Any

import pytest

from headway import BlockingRunContext, Headway, RunContext, RunFailed
from headway.core.run.status import RunStatus
from headway.services.context.execution import Ending
from headway.services.engine import claimer as claiming
from headway.services.engine import engine

pytestmark = pytest.mark.backend("sqlite")


async def well(ctx: RunContext) -> str:
    return "well"


async def run_to_failure(hw: Headway, job: str) -> RunFailed:
    run = await hw.start(job)
    with pytest.raises(RunFailed) as failed:
        await run.result(20)
    assert await (await hw.start("well")).result(20) == "well"
    return failed.value


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_job_that_calls_sys_exit_fails_only_its_own_run(url: str, is_async: bool) -> None:
    hw = Headway(url)
    hw.job()(well)

    async def exits(ctx: RunContext) -> None:
        sys.exit(3)

    def exits_in_thread(ctx: BlockingRunContext) -> None:
        sys.exit(3)

    hw.job(name="exits", retries=2)(exits if is_async else exits_in_thread)
    async with hw:
        failed = await run_to_failure(hw, "exits")
    assert failed.error["message"].endswith("SystemExit: 3")


@pytest.mark.proves("I17")
async def test_a_result_of_fifty_megabytes_is_too_large(url: str) -> None:
    hw = Headway(url)
    hw.job()(well)

    @hw.job()
    async def big(ctx: RunContext) -> str:
        return "x" * 50_000_000

    async with hw:
        failed = await run_to_failure(hw, "big")
    assert failed.error["code"] == "too_large"


@pytest.mark.proves("R2.8")
async def test_a_job_that_never_ends_is_timed_out_and_cancelled(url: str) -> None:
    hw, ended = Headway(url), asyncio.Event()
    hw.job()(well)

    @hw.job(timeout_s=0.2)
    async def endless(ctx: RunContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with hw:
        failed = await run_to_failure(hw, "endless")
        async with asyncio.timeout(10):
            await ended.wait()
    assert failed.status is RunStatus.TIMED_OUT


@pytest.mark.proves("I11")
async def test_a_job_that_ignores_its_cancel_is_ended_by_force(url: str) -> None:
    hw, started = Headway(url, stop_wait_s=0), asyncio.Event()
    hw.job()(well)
    release = asyncio.Event()

    @hw.job()
    async def ignores_cancel(ctx: RunContext) -> str:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "ignored"

    async with hw:
        run = await hw.start("ignores_cancel", key="ann")
        await started.wait()
        assert await run.cancel(grace_s=0.1) == "requested"
        record = await run.wait_for_end()
        assert record.run.status is RunStatus.CANCELED
        # The key is free although the old work has not ended.
        assert await (await hw.start("well", key="ann")).result(10) == "well"
        release.set()
        await asyncio.sleep(0.1)
        assert (await run.record()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I8")
async def test_a_job_that_never_returns_does_not_block_the_stop(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "UNWIND_S", 0.1)
    hw, release = Headway(url, stop_wait_s=0), threading.Event()
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    @hw.job()
    def stuck(ctx: BlockingRunContext) -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait()

    async with asyncio.timeout(10), hw:
        run = await hw.start("stuck")
        await started.wait()
    release.set()
    hw = Headway(url)
    hw.job(name="stuck")(well)
    async with hw:
        assert await hw.run(run.id).result(10) == "well"


@pytest.mark.proves("R4.13")
@pytest.mark.slow
async def test_a_job_that_blocks_the_event_loop_does_not_lose_the_lease(url: str) -> None:
    """The lease is renewed from the writer's own thread."""
    hw = Headway(url, lease_ttl_s=2.0)

    @hw.job()
    async def blocks(ctx: RunContext) -> str:
        before = (await hw.store.runs.instances())[0].lease_expires_at
        time.sleep(3.5)  # noqa: ASYNC251
        after = (await hw.store.runs.instances())[0].lease_expires_at
        return "renewed" if after > before + 2_000_000 else "not renewed"

    async with hw:
        run = await hw.start("blocks")
        assert await run.result(20) == "renewed"
        assert (await run.record()).run.generation == 1


@pytest.mark.proves("R1.1")
async def test_a_plain_function_runs_in_a_thread_and_reports_through_its_context(
    url: str,
) -> None:
    hw = Headway(url)
    threads: list[str] = []

    @hw.job()
    def plain(ctx: BlockingRunContext, count: int) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        for number in range(count):
            ctx.progress(done=number + 1)
        ctx.save_checkpoint({"done": count})
        ctx.log("halfway", level="warning")
        ctx.emit("photo_found", {"name": "1.jpg"})
        ctx.sleep(0.01)
        return {"messages": ctx.messages(), "pid": os.getpid() == ctx.params["count"]}

    async with hw:
        run = await hw.start("plain", params={"count": 3})
        assert await run.result(10) == {"messages": [], "pid": False}
        record = await run.record()
        kinds = [event.type async for event in run.events()]
    assert threads[0].startswith("headway-job-")
    assert (record.progress, record.checkpoint) == ('{"done":3}', '{"done":3}')
    assert {"run_log", "photo_found", "run_progress", "run_checkpoint"} <= set(kinds)


@pytest.mark.proves("R1.8")
async def test_a_plain_function_is_cancelled_at_its_next_context_call(url: str) -> None:
    hw, started = Headway(url), asyncio.Event()
    loop = asyncio.get_running_loop()

    @hw.job()
    def plain(ctx: BlockingRunContext) -> None:
        loop.call_soon_threadsafe(started.set)
        while not ctx.canceled:
            time.sleep(0.005)
        ctx.progress(never="stored")

    async with hw:
        run = await hw.start("plain")
        await started.wait()
        assert await run.cancel() == "requested"
        record = await run.wait_for_end()
    assert (record.run.status, record.progress) == (RunStatus.CANCELED, None)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class OtherBaseException(BaseException):
    """A BaseException that is neither an Exception nor an exit."""


@pytest.mark.proves("I8")
@pytest.mark.parametrize(
    "error", [UnprintableError(), OtherBaseException("no manners")], ids=["unprintable", "base"]
)
async def test_any_exception_that_a_job_raises_ends_its_run(url: str, error: BaseException) -> None:
    hw = Headway(url)
    hw.job()(well)

    @hw.job()
    async def raises(ctx: RunContext) -> None:
        raise error

    async with hw:
        failed = await run_to_failure(hw, "raises")
    assert failed.error["message"].startswith(type(error).__name__)


@pytest.mark.proves("R1.8")
async def test_a_plain_function_is_cancelled_while_it_waits_in_its_context(url: str) -> None:
    hw, started = Headway(url), asyncio.Event()
    loop = asyncio.get_running_loop()
    unwound: list[str] = []

    @hw.job()
    def plain(ctx: BlockingRunContext) -> None:
        loop.call_soon_threadsafe(started.set)
        try:
            ctx.sleep(3_600)
        finally:
            unwound.append(ctx.run_id)

    async with hw:
        run = await hw.start("plain")
        await started.wait()
        assert await run.cancel() == "requested"
        async with asyncio.timeout(10):
            assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert unwound == [run.id]


@pytest.mark.proves("R1.8", "I11")
async def test_a_call_that_reaches_the_event_loop_after_the_cancel_does_not_wait(url: str) -> None:
    """The thread of the job checked for a cancel just before the cancel arrived."""
    hw, started = Headway(url), asyncio.Event()
    loop = asyncio.get_running_loop()

    @hw.job()
    def plain(ctx: BlockingRunContext) -> None:
        loop.call_soon_threadsafe(started.set)
        while not ctx._context.execution.is_cancelled:
            time.sleep(0.001)
        late_call = ctx._run_cancellable(ctx._context.sleep(3_600))
        asyncio.run_coroutine_threadsafe(late_call, loop).result()

    async with hw:
        run = await hw.start("plain")
        await started.wait()
        await run.cancel()
        async with asyncio.timeout(10):
            assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I3")
async def test_a_job_that_fails_during_a_stop_is_executed_again(url: str) -> None:
    started = asyncio.Event()

    async def work(ctx: RunContext) -> str:
        if ctx.generation > 1:
            return "executed again"
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the clean-up failed")

    hw = Headway(url, stop_wait_s=0)
    hw.job(retries=5)(work)
    async with hw:
        run = await hw.start("work")
        await started.wait()
    hw = Headway(url)
    hw.job()(work)
    async with hw:
        assert await hw.run(run.id).result(10) == "executed again"


@pytest.mark.proves("I3")
async def test_runs_of_a_job_that_has_moved_to_another_lane_are_still_claimed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw = Headway(url)
    hw.job(lane="before")(well)
    async with hw:
        await hw.lanes.set("before", is_paused=True)
        run = await hw.start("well")
    monkeypatch.setattr(claiming, "ALL_LANES_POLL_S", 0.1)
    hw = Headway(url)
    hw.job(lane="after")(well)
    async with hw:
        await hw.lanes.set("before", is_paused=False)
        assert await result_of(hw, run.id) == "well"


async def result_of(hw: Headway, run_id: str) -> Any:
    return await hw.run(run_id).result(10)


@pytest.mark.proves("I3")
async def test_a_claimed_run_that_is_not_executed_is_released_and_claimed_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to its claim was lost because the connection broke."""
    hw = Headway(url, lease_ttl_s=1.5)
    hw.job()(well)
    start = engine.Engine._start
    dropped_run_ids: list[str] = []

    def drop_the_first(self: engine.Engine, claimed: Any) -> None:
        if not dropped_run_ids:
            dropped_run_ids.append(claimed.run_id)
        else:
            start(self, claimed)

    monkeypatch.setattr(engine.Engine, "_start", drop_the_first)
    async with hw:
        run = await hw.start("well")
        assert await run.result(20) == "well"
        assert dropped_run_ids == [run.id]
        assert (await run.record()).run.generation == 2


@pytest.mark.proves("R4.13")
async def test_an_execution_that_ends_before_it_starts_releases_its_run(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw = Headway(url)
    hw.job()(well)
    start = engine.Engine._start
    ended: list[str] = []

    def end_the_first_at_once(self: engine.Engine, claimed: Any) -> None:
        start(self, claimed)
        if not ended:
            ended.append(claimed.run_id)
            self._executing[claimed.run_id].end(Ending.SHUTDOWN)

    monkeypatch.setattr(engine.Engine, "_start", end_the_first_at_once)
    async with hw:
        run = await hw.start("well")
        assert await run.result(10) == "well"
        assert (await run.record()).run.generation == 2


@pytest.mark.proves("I8")
async def test_cancelling_the_stop_leaves_no_engine_task_running(url: str) -> None:
    hw, started, ended = Headway(url, stop_wait_s=3_600), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def body() -> None:
        async with hw:
            await hw.start("work")
            await started.wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(body())
        await started.wait()
        await asyncio.sleep(0.1)
        task.cancel()
    assert ended.is_set()
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
    assert not [name for name in names if name.startswith("Engine.")]
