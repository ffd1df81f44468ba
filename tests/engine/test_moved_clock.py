"""The clock is moved on by more than a lease: a machine slept, or its time was set.

A process that lives is not dead for that, unless others have declared it dead meanwhile. Here a
lease is renewed after twenty minutes: whoever goes on has found out before.
"""

import asyncio

import pytest

from headway import Headway, RunContext
from headway.bootstrap import SystemClock
from headway.core.ids import Instant, add_seconds
from headway.core.run.run import DEATH_COUNT_MAX, Run
from headway.services.engine import claimer as claiming
from headway.services.engine import engine
from headway.services.submit.run_handle import RunHandle
from tests.engine.scenes import Gauge

HOUR_S = 3_600
pytestmark = pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])


class MovedClock(SystemClock):
    """Goes like that of this machine. The monotonic clock stands still when it is moved."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def now(self) -> Instant:
        return add_seconds(super().now(), seconds=self._ahead_s)

    def move(self) -> None:
        self._ahead_s += HOUR_S + 5


class Stage:
    """A Headway on a clock that can be moved, with two jobs that work until they are released."""

    def __init__(self, place: str, clock: MovedClock) -> None:
        self.hw = Headway(place, clock=clock, lease_ttl_s=HOUR_S)
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
async def test_a_process_that_is_alone_outlives_every_step_of_the_clock(place: str) -> None:
    """Its claims are refused while the lease is over: so it renews it."""
    clock = MovedClock()
    stage = Stage(place, clock)
    async with stage.hw as hw, asyncio.timeout(60):
        (life,) = await hw.store.runs.instances()
        runs = [await hw.start("resumes", key="ann"), await hw.start("fails", key="ben")]
        await stage.gauge.reaches(2)
        for _ in range(DEATH_COUNT_MAX):
            clock.move()
            assert await (await hw.start("answers")).result() == 1
        assert [one.id for one in await hw.store.runs.instances()] == [life.id]
        assert [(await state(run)).death_count for run in runs] == [0, 0]
        stage.release.set()
        assert [await run.result() for run in runs] == [1, 1]
    assert stage.gauge.begun == ["ann", "ben"]


@pytest.mark.proves("I8", "R4.13")
async def test_a_process_that_others_found_late_loses_its_runs_to_them(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does nothing until they have declared it dead; then it is told by the first refusal."""
    has_polled = asyncio.Event()

    async def waits(event: asyncio.Event, _: float) -> bool:
        has_polled.set()
        return await event.wait()

    monkeypatch.setattr(claiming, "is_set_within", waits)
    # Its own sweep could bury it as well, and its next life would take the run.
    monkeypatch.setattr(engine, "SWEEP_S", HOUR_S)
    clock = MovedClock()
    stage, elsewhere = Stage(place, clock), Stage(place, clock)
    elsewhere.release.set()
    async with stage.hw as hw, asyncio.timeout(60):
        run = await hw.start("resumes", key="ann")
        await stage.gauge.reaches(1)
        await has_polled.wait()  # A claim that is refused would have it renew its lease.
        (life,) = await hw.store.runs.instances()
        clock.move()
        async with elsewhere.hw:
            assert await elsewhere.hw.run(run.id).result() == 2
            await hw.start("answers")
            await stage.gauge.reaches(0)
            assert life.id not in {one.id for one in await hw.store.runs.instances()}
        assert (await state(run)).death_count == 1
