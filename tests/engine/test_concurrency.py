"""Jobs with `concurrency=`: their lane, and which setting of its limit wins (R3.10, I5)."""

import asyncio

import pytest

from headway import Headway, InvalidInput, RunContext
from tests.engine.scenes import Gauge

pytestmark = pytest.mark.backend("sqlite")


async def limit_of(hw: Headway, lane: str) -> int:
    (view,) = [view for view in await hw.lanes.list() if view.lane.name == lane]
    return view.lane.max_concurrent


def headway_with_limit(url: str, concurrency: int) -> Headway:
    hw = Headway(url)

    @hw.job(concurrency=concurrency)
    async def fetch(ctx: RunContext) -> None: ...

    return hw


@pytest.mark.proves("I5")
async def test_concurrency_limits_the_runs_of_a_job(url: str) -> None:
    gauge, release = Gauge(), asyncio.Event()
    hw = Headway(url)

    @hw.job(concurrency=2)
    async def fetch(ctx: RunContext) -> None:
        async with gauge.counted(ctx.key):
            await release.wait()

    async with hw:
        runs = [await hw.start("fetch", key=f"key-{number}") for number in range(8)]
        await gauge.wait_for_count(2)
        release.set()
        for run in runs:
            await run.result()
        assert {(await run.record()).run.lane for run in runs} == {"job:fetch"}
    assert gauge.peak == 2


@pytest.mark.proves("R3.10")
async def test_a_changed_limit_applies_at_the_next_start_unless_it_was_overridden(
    url: str,
) -> None:
    async with headway_with_limit(url, 2) as hw:
        assert await limit_of(hw, "job:fetch") == 2
    async with headway_with_limit(url, 5) as hw:
        assert await limit_of(hw, "job:fetch") == 5
        await hw.lanes.set("job:fetch", max_concurrent=1)
    async with headway_with_limit(url, 9) as hw:
        assert await limit_of(hw, "job:fetch") == 1


@pytest.mark.proves("I5")
async def test_a_job_registered_after_the_start_has_its_limit_before_its_first_run(
    url: str,
) -> None:
    async with Headway(url) as hw:

        @hw.job(concurrency=7)
        async def late(ctx: RunContext) -> None: ...

        await (await hw.start("late")).result()
        assert await limit_of(hw, "job:late") == 7


@pytest.mark.proves("I5")
async def test_a_job_registered_after_the_start_has_its_limit_before_its_first_child(
    url: str,
) -> None:
    hw = Headway(url)

    @hw.job()
    async def parent(ctx: RunContext) -> None:
        await ctx.call("late")

    async with hw:

        @hw.job(concurrency=7)
        async def late(ctx: RunContext) -> None: ...

        await (await hw.start("parent")).result()
        assert await limit_of(hw, "job:late") == 7


@pytest.mark.proves("I5")
async def test_runs_of_a_schedule_use_the_lane_of_their_job(url: str) -> None:
    hw = headway_with_limit(url, 2)

    @hw.job()
    async def other(ctx: RunContext) -> None: ...

    for job in ("fetch", "other"):
        hw.schedule("0 3 * * *", job=job)
    lanes = {schedule.name: schedule.lane for schedule in hw._schedules.values()}
    assert lanes == {"fetch": "job:fetch", "other": "cron"}


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"concurrency": 2, "lane": "main"},
            "concurrency cannot be combined with lane; a job with this limit has its own lane",
        ),
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to 1,000,000"),
        ({"concurrency": True}, "concurrency must be a whole number from 1 to 1,000,000"),
        ({"concurrency": "2"}, "concurrency must be a whole number from 1 to 1,000,000"),
        ({"concurrency": 2, "name": "x" * 252}, "job is 256 characters; the limit is 255"),
    ],
)
def test_an_invalid_concurrency_is_refused_with_a_reason(
    options: dict[str, object], message: str
) -> None:
    async def work(ctx: RunContext) -> None: ...

    with pytest.raises(InvalidInput) as refused:
        Headway("sqlite:///:memory:").job(**options)(work)  # type: ignore[call-overload]
    assert str(refused.value) == message
