"""Every exit from `async with Headway`: no run is lost, and errors are clear."""

import asyncio
import sqlite3
import threading
from contextlib import closing, suppress
from typing import Any

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.bootstrap import build_life_lock
from headway.core.command.admin.instance import DeclareDead, HandOver
from headway.core.errors import StoreClosed, StoreFailed
from headway.core.run.events import EventType
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.ports.store import Store
from headway.services.engine import claimer, engine
from headway.services.engine.execute import release_claim
from headway.services.engine.sweep import sweep
from tests.engine.scenes import Gauge, open_bare_store, records

pytestmark = pytest.mark.backend("sqlite")


class Stage:
    """A Headway whose job `work` runs until it is released, and is counted by a gauge."""

    def __init__(self, url: str, *, stop_wait_s: float = 10.0, lease_ttl_s: float = 15.0) -> None:
        self.hw = Headway(url, stop_wait_s=stop_wait_s, lease_ttl_s=lease_ttl_s)
        self.gauge = Gauge()
        self.release = asyncio.Event()
        self.hw.job()(self.work)

    async def work(self, ctx: RunContext) -> str:
        await ctx.save_checkpoint({"generation": ctx.generation})
        async with self.gauge.counted(ctx.key):
            await self.release.wait()
            await ctx.progress(is_released=True)
        return f"{ctx.key} in generation {ctx.generation}"


def is_ready_for_others(run: Run) -> bool:
    return run.status is RunStatus.RUNNING and run.instance_id is None and run.ready_seq is not None


@pytest.mark.proves("I3")
async def test_active_runs_may_finish_after_the_body_has_ended(url: str) -> None:
    stage = Stage(url)
    async with stage.hw as hw:
        await hw.start("work", key="ann")
        await stage.gauge.wait_for_count(1)
        stage.release.set()
    async with open_bare_store(url) as store:
        (record,) = await records(store)
        assert record.run.status is RunStatus.SUCCEEDED
        assert await store.runs.instances() == []


@pytest.mark.proves("I17")
async def test_a_sweep_during_a_graceful_stop_counts_no_death(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job does not end, so the engine releases its run while another instance sweeps."""
    monkeypatch.setattr(engine, "UNWIND_S", 0.05)
    hw, begun, release = Headway(url, stop_wait_s=0), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def stubborn(ctx: RunContext) -> None:
        begun.set()
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    async with open_bare_store(url) as other:

        async def sweep_then_release(store: Store, handed: HandOver) -> None:
            await sweep(other, other.runs, build_life_lock([url], other))
            await release_claim(store, handed)

        monkeypatch.setattr(engine, "release_claim", sweep_then_release)
        async with hw:
            await hw.start("stubborn", key="ann")
            await begun.wait()
        (record,) = await records(other)
        release.set()
        assert is_ready_for_others(record.run)
        assert (record.run.death_count, record.run.stop_count) == (0, 1)
        page = await other.events.events(after_seq=0, limit=99, run_id=record.run.id)
        assert EventType.TAKEN_OVER not in {event.type for event in page.events}


@pytest.mark.proves("I3")
@pytest.mark.parametrize("stop_wait_s", [0.0, 0.05])
async def test_a_run_that_does_not_end_in_time_is_released_and_not_canceled(
    url: str, stop_wait_s: float
) -> None:
    stage = Stage(url, stop_wait_s=stop_wait_s)
    async with stage.hw as hw:
        await hw.start("work", key="ann")
        await stage.gauge.wait_for_count(1)
    assert stage.gauge.count == 0
    async with open_bare_store(url) as store:
        (record,) = await records(store)
        assert is_ready_for_others(record.run)
        assert (record.run.generation, record.run.death_count) == (1, 0)
        assert record.cancel is None
        assert await store.runs.instances() == []


@pytest.mark.proves("R1.9")
async def test_the_next_process_resumes_active_and_queued_runs(url: str) -> None:
    keys = ["ann", "bob", "cem", "dot", "eve"]
    first = Stage(url, stop_wait_s=0)
    async with first.hw as hw:
        for key in keys:
            await hw.start("work", key=key)
        await first.gauge.wait_for_count(3)
    second = Stage(url)
    second.release.set()
    async with second.hw as hw:
        runs = [hw.run(record.run.id) for record in await records(hw.store)]
        results = [await run.result() for run in runs]
    generations = dict.fromkeys(keys, 1) | dict.fromkeys(first.gauge.begun, 2)
    assert results == [f"{key} in generation {generations[key]}" for key in keys]
    # Started runs come first, then the others in their order.
    assert set(second.gauge.begun[:3]) == set(first.gauge.begun)
    assert second.gauge.begun[3:] == keys[3:]
    assert second.gauge.peak <= 3


@pytest.mark.proves("I3")
async def test_a_released_run_resumes_from_its_checkpoint(url: str) -> None:
    first = Stage(url, stop_wait_s=0)
    async with first.hw as hw:
        run = await hw.start("work", key="ann")
        await first.gauge.wait_for_count(1)
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> object:
        return ctx.checkpoint

    async with hw:
        assert await hw.run(run.id).result() == {"generation": 1}


@pytest.mark.proves("I3")
async def test_a_run_with_a_requested_cancel_is_canceled_by_the_stop(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "UNWIND_S", 0.2)
    hw, started, cleaning = Headway(url, stop_wait_s=0), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await asyncio.Event().wait()

    async with hw:
        run = await hw.start("work", key="ann")
        await started.wait()
        await run.cancel()
        await cleaning.wait()
    async with open_bare_store(url) as store:
        (record,) = await records(store)
    assert record.run.status is RunStatus.CANCELED


@pytest.mark.proves("I3")
@pytest.mark.parametrize("turn_count", [*range(10), 20, 40])
async def test_a_stop_at_any_point_leaves_the_run_to_the_next_process(
    url: str, turn_count: int
) -> None:
    """The run is queued, being claimed, claimed or started, depending on the loop turn."""
    first = Stage(url, stop_wait_s=0)

    async def body() -> None:
        async with first.hw as hw:
            await hw.start("work", key="ann")
            for _ in range(turn_count):
                await asyncio.sleep(0)
            raise asyncio.CancelledError  # As if interrupted: a claim may be in flight.

    with pytest.raises(asyncio.CancelledError):
        await body()
    async with open_bare_store(url) as store:
        (record,) = await records(store)
        assert (record.run.instance_id, record.run.death_count) == (None, 0)
        assert await store.runs.instances() == []
    second = Stage(url)
    second.release.set()
    async with second.hw as hw:
        run = hw.run(record.run.id)
        assert (await run.result()).startswith("ann in generation")


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), ExceptionGroup("a bug", [ValueError(), KeyError()])]
)
async def test_an_error_of_the_body_is_raised_unchanged_and_its_runs_are_released(
    url: str, error: Exception
) -> None:
    stage = Stage(url, stop_wait_s=3_600)

    async def body() -> None:
        async with stage.hw as hw:
            await hw.start("work", key="ann")
            await stage.gauge.wait_for_count(1)
            raise error

    with pytest.raises(type(error)) as raised:
        await body()
    assert raised.value is error
    async with open_bare_store(url) as store:
        (record,) = await records(store)
    assert is_ready_for_others(record.run)


async def test_a_cancelled_body_ends_cancelled_and_its_runs_are_released(
    url: str,
) -> None:
    stage = Stage(url, stop_wait_s=3_600)

    async def body() -> None:
        async with stage.hw as hw:
            await hw.start("work", key="ann")
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(body())
        await stage.gauge.wait_for_count(1)
        task.cancel()
    assert task.cancelled()
    async with open_bare_store(url) as store:
        (record,) = await records(store)
    assert is_ready_for_others(record.run)


async def test_cancelling_the_task_ends_the_wait_for_active_runs(url: str) -> None:
    stage = Stage(url, stop_wait_s=3_600)
    is_leaving = asyncio.Event()

    async def body() -> None:
        async with stage.hw as hw:
            await hw.start("work", key="ann")
            await stage.gauge.wait_for_count(1)
            is_leaving.set()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(body())
        await is_leaving.wait()
        task.cancel()
    assert task.cancelled()
    async with open_bare_store(url) as store:
        (record,) = await records(store)
    assert is_ready_for_others(record.run)


@pytest.mark.proves("R4.13")
async def test_an_engine_declared_dead_stops_its_runs_and_registers_again(
    url: str,
) -> None:
    stage = Stage(url)
    async with stage.hw as hw:
        first = await hw.start("work", key="ann")
        await stage.gauge.wait_for_count(1)
        (instance,) = await hw.store.runs.instances()
        assert await hw.store.apply(DeclareDead(instance.id, is_proven=True))
        while (await first.record()).run.generation == 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        stage.release.set()
        assert await first.result(10) == "ann in generation 2"
        second = await hw.start("work", key="bob")
        assert await second.result(10) == "bob in generation 1"
        others = [row.id for row in await hw.store.runs.instances() if not row.is_dead]
        assert instance.id not in others
        assert len(others) == 1


@pytest.mark.proves("R4.13")
async def test_an_engine_that_cannot_renew_its_lease_stops_its_runs(
    url: str,
) -> None:
    """Its claims stay current, because no other process can write that it is dead."""
    stage = Stage(url, lease_ttl_s=1.0)
    async with stage.hw as hw:
        run = await hw.start("work", key="ann")
        await stage.gauge.wait_for_count(1)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(10):
                await stage.gauge.wait_for_count(0)
        stage.release.set()
        assert await run.result(20) != "ann in generation 1"


@pytest.mark.proves("R4.13")
async def test_an_idle_engine_detects_at_renewal_that_it_was_declared_dead(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claimer, "POLL_S", 3_600)
    monkeypatch.setattr(engine, "POLL_S", 3_600)
    hw = Headway(url, lease_ttl_s=3.0)
    async with hw, open_bare_store(url) as elsewhere:
        (instance,) = await elsewhere.runs.instances()
        await elsewhere.apply(DeclareDead(instance.id, is_proven=True))
        while all(row.is_dead for row in await elsewhere.runs.instances()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_an_engine_that_cannot_start_raises_the_reason_and_closes_everything(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        # The schema is valid; only the registration of a new instance fails.
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON instances"
            " BEGIN INSERT INTO lost_table VALUES (1); END"
        )
    hw = Headway(url)
    with pytest.raises(StoreFailed, match="lost_table"):
        await hw.__aenter__()
    assert "headway-writer" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(RuntimeError, match="async with"):
        _ = hw.store


@pytest.mark.proves("I20")
async def test_an_engine_whose_store_is_closed_ends_with_an_error(url: str) -> None:
    """Otherwise it would wait forever and do nothing."""

    async def lose_the_store() -> None:
        async with asyncio.timeout(20), Headway(url, lease_ttl_s=3) as hw:
            await hw.store.writer.close()
            await asyncio.Event().wait()

    with pytest.raises(StoreClosed):
        await lose_the_store()


@pytest.mark.proves("I8")
async def test_a_failed_sweep_round_does_not_stop_the_next_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances, failed_rounds = SqlRunReader.instances, list[str]()

    async def fail_twice(self: SqlRunReader) -> Any:
        if len(failed_rounds) < 2:
            failed_rounds.append("sweep")
            raise ZeroDivisionError
        return await instances(self)

    hw = Headway(url)

    @hw.job(timeout_s=0.1)
    async def never_ends(ctx: RunContext) -> None:
        await asyncio.Event().wait()

    async with hw:
        monkeypatch.setattr(SqlRunReader, "instances", fail_twice)
        run = await hw.start("never_ends")
        async with asyncio.timeout(20):
            assert (await run.wait_for_end()).run.status is RunStatus.TIMED_OUT
    assert len(failed_rounds) == 2
