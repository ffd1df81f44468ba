"""The wall clock jumps by more than a lease: the machine slept, or its time was set.

A running process is not dead because of that, unless others have declared it dead. Here a lease is
renewed only after twenty minutes, so a process that continues has noticed the jump earlier.
"""

import asyncio

import pytest

from headway import Headway, RunContext
from headway.bootstrap import SystemClock
from headway.core.ids import Instant, add_seconds
from headway.core.run.run import DEATH_COUNT_MAX, Run
from headway.services.engine import claimer, engine
from headway.services.submit.run_handle import RunHandle
from tests.engine.scenes import Gauge

HOUR_S = 3_600
pytestmark = pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])


class MovedClock(SystemClock):
    """The system clock with a wall time that can jump. The monotonic clock does not."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def now(self) -> Instant:
        return add_seconds(super().now(), seconds=self._ahead_s)

    def move(self) -> None:
        self._ahead_s += HOUR_S + 5


class Stage:
    """A Headway on a clock that can jump, with two jobs that work until they are released."""

    def __init__(self, database_url: str, clock: MovedClock) -> None:
        self.hw = Headway(database_url, clock=clock, lease_ttl_s=HOUR_S)
        self.gauge = Gauge()
        self.release = asyncio.Event()
        self.hw.job(timeout_s=None)(self.resumes)
        self.hw.job(recovery="fail", timeout_s=None)(self.fails)
        self.hw.job()(self.answers)

    async def resumes(self, ctx: RunContext) -> int:
        return await self.fails(ctx)

    async def fails(self, ctx: RunContext) -> int:
        async with self.gauge.counted(ctx.key):
            await self.release.wait()
        return ctx.generation

    async def answers(self, ctx: RunContext) -> int:
        return ctx.generation


async def state(run: RunHandle) -> Run:
    return (await run.record()).run


@pytest.mark.proves("I17", "I8")
async def test_a_single_process_survives_every_clock_jump(database_url: str) -> None:
    """Its claims are refused because the lease has expired, so it renews the lease."""
    clock = MovedClock()
    stage = Stage(database_url, clock)
    async with stage.hw as hw, asyncio.timeout(60):
        (instance,) = await hw.store.runs.instances()
        runs = [await hw.start("resumes", key="ann"), await hw.start("fails", key="ben")]
        await stage.gauge.wait_for_count(2)
        for _ in range(DEATH_COUNT_MAX):
            clock.move()
            assert await (await hw.start("answers")).result() == 1
        assert [row.id for row in await hw.store.runs.instances()] == [instance.id]
        assert [(await state(run)).death_count for run in runs] == [0, 0]
        stage.release.set()
        assert [await run.result() for run in runs] == [1, 1]
    assert stage.gauge.begun == ["ann", "ben"]


@pytest.mark.proves("I8", "R4.13")
async def test_a_process_declared_dead_by_others_loses_its_runs(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process notices nothing until its first refused write."""
    has_polled = asyncio.Event()

    async def wait_without_timeout(event: asyncio.Event, _: float) -> bool:
        has_polled.set()
        return await event.wait()

    monkeypatch.setattr(claimer, "wait_until_set", wait_without_timeout)
    # Its own sweep could declare it dead as well, and its next instance would claim the run.
    monkeypatch.setattr(engine, "SWEEP_S", HOUR_S)
    clock = MovedClock()
    stage, elsewhere = Stage(database_url, clock), Stage(database_url, clock)
    elsewhere.release.set()
    async with stage.hw as hw, asyncio.timeout(60):
        run = await hw.start("resumes", key="ann")
        await stage.gauge.wait_for_count(1)
        await has_polled.wait()  # A refused claim would make it renew its lease.
        (instance,) = await hw.store.runs.instances()
        clock.move()
        async with elsewhere.hw:
            assert await elsewhere.hw.run(run.id).result() == 2
            await hw.start("answers")
            await stage.gauge.wait_for_count(0)
            assert instance.id not in {row.id for row in await hw.store.runs.instances()}
        assert (await state(run)).death_count == 1
