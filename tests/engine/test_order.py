"""One run at a time per key, three per lane, in the order of acceptance (R1.2, R1.5)."""

import asyncio

import pytest

from headway import Headway, RunContext
from headway.core.errors import KeyBusy
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from tests.engine.scenes import Gauge, records_of

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R1.5")
async def test_a_second_start_for_a_key_is_refused_with_the_active_run(url: str) -> None:
    hw, release = Headway(url), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> str:
        await release.wait()
        return "done"

    async with hw:
        run = await hw.start("work", key="ann")
        with pytest.raises(KeyBusy, match=f"'ann' already has an active run .{run.id}") as busy:
            await hw.start("work", key="ann")
        assert (busy.value.key, busy.value.active_run_id) == ("ann", run.id)
        assert len(await records_of(hw)) == 1
        release.set()
        assert await run.result() == "done"
        assert await (await hw.start("work", key="ann")).result() == "done"


@pytest.mark.proves("R1.5")
async def test_one_of_a_hundred_concurrent_starts_for_a_key_is_accepted(url: str) -> None:
    hw, release = Headway(url), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        await release.wait()

    async with hw:
        results = await asyncio.gather(
            *(hw.start("work", key="ann") for _ in range(100)), return_exceptions=True
        )
        (accepted,) = (run for run in results if not isinstance(run, BaseException))
        refusals = [result for result in results if isinstance(result, KeyBusy)]
        assert len(refusals) == 99
        assert {refusal.active_run_id for refusal in refusals} == {accepted.id}
        release.set()


@pytest.mark.proves("R1.2")
async def test_at_most_three_keys_run_at_once_and_the_next_starts_when_one_ends(
    url: str,
) -> None:
    hw, gauge = Headway(url), Gauge()
    releases = {f"key-{number}": asyncio.Event() for number in range(7)}

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async with gauge.counted(ctx.key):
            await releases[ctx.key].wait()

    async with hw:
        runs = {key: await hw.start("work", key=key) for key in releases}
        await gauge.wait_for_count(3)
        (main,) = (view for view in await hw.store.runs.lanes() if view.lane.name == "main")
        assert (main.held_count, main.queued_count) == (3, 4)
        for number, (key, release) in enumerate(releases.items()):
            assert gauge.begun == list(releases)[: number + 3]
            release.set()
            await runs[key].result()
            await gauge.wait_for_count(min(3, len(releases) - number - 1))
    assert gauge.peak == 3
    assert gauge.begun == list(releases)


@pytest.mark.proves("I9")
async def test_runs_of_a_key_run_one_by_one_in_the_order_of_acceptance(
    url: str,
) -> None:
    hw = Headway(url)
    order: dict[str, list[int]] = {"ann": [], "bob": []}
    working: set[str] = set()

    @hw.job()
    async def work(ctx: RunContext, number: int) -> None:
        assert ctx.key not in working
        working.add(ctx.key)
        await ctx.progress(number=number)
        order[ctx.key].append(number)
        working.remove(ctx.key)
        if number % 3 == 0:
            raise RuntimeError("a failure blocks no other run")

    async with hw:
        runs = [
            await hw.start(
                "work", key=key, params={"number": number}, on_conflict=OnConflict.ENQUEUE
            )
            for number in range(10)
            for key in order
        ]
        await asyncio.gather(*(run.wait_for_end() for run in runs))
    assert order == {"ann": list(range(10)), "bob": list(range(10))}


@pytest.mark.proves("R1.2")
async def test_two_keys_run_at_the_same_time(url: str) -> None:
    hw, both = Headway(url), asyncio.Barrier(2)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        await both.wait()

    async with hw:
        # Each waits for the other, so one after the other would never end.
        runs = [await hw.start("work", key=key) for key in ("ann", "bob")]
        await asyncio.gather(*(run.wait_for_end() for run in runs))


@pytest.mark.proves("R2.8")
async def test_a_run_that_waits_too_long_in_the_queue_is_timed_out(url: str) -> None:
    hw, release = Headway(url), asyncio.Event()
    begun: list[str] = []

    @hw.job()
    async def works(ctx: RunContext) -> None:
        begun.append(ctx.run_id)
        await release.wait()

    @hw.job(queue_timeout_s=0.2)
    async def hurries(ctx: RunContext) -> None:
        begun.append(ctx.run_id)

    async with hw:
        first = await hw.start("works", key="ann")
        second = await hw.start("hurries", key="ann", on_conflict=OnConflict.ENQUEUE)
        async with asyncio.timeout(20):
            ended = await second.wait_for_end()
        release.set()
        await first.result(10)
    assert ended.run.status is RunStatus.TIMED_OUT
    assert begun == [first.id]
