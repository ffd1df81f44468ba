"""A job starts other jobs as children and waits for them without holding a slot."""

import asyncio

import pytest

from headway import (
    BlockingRunContext,
    ChildRefused,
    ChildRun,
    Headway,
    InvalidInput,
    KeyBusy,
    RunContext,
    RunFailed,
    RunStatus,
)
from headway.core.command.run.child import CHILD_DEPTH_MAX
from headway.core.run.explain import Gate
from headway.services.submit import submitter
from headway.services.submit.job import Backoff
from tests.engine.scenes import records_of

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I5")
async def test_parent_and_children_share_a_lane_with_one_slot(url: str) -> None:
    """The parent releases its slot while it waits, so that its children can run."""
    hw = Headway(url)

    @hw.job()
    async def double(ctx: RunContext, number: int) -> int:
        return 2 * number

    @hw.job()
    async def add_up(ctx: RunContext, numbers: list[int]) -> int:
        one_by_one = [await ctx.call("double", params={"number": n}) for n in numbers]
        at_once = await asyncio.gather(
            *(ctx.call("double", params={"number": n}, name=f"again {n}") for n in numbers)
        )
        assert one_by_one == at_once
        return sum(at_once)

    async with hw:
        await hw.lanes.set("main", max_concurrent=1)
        run = await hw.start("add_up", key="ann", params={"numbers": [1, 2, 3, 4]})
        assert await run.result() == 20
        runs = await records_of(hw)
        assert len(runs) == 9
        assert {record.run.parent_id for record in runs[1:]} == {run.id}


@pytest.mark.proves("I5")
async def test_a_chain_of_parents_reaches_the_depth_limit_in_a_lane_with_one_slot(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def dig(ctx: RunContext, depth: int) -> int:
        if depth < CHILD_DEPTH_MAX:
            deepest: int = await ctx.call("dig", params={"depth": depth + 1})
            return deepest
        with pytest.raises(ChildRefused, match=f"is nested {CHILD_DEPTH_MAX} levels deep"):
            await ctx.call("dig", params={"depth": depth + 1})
        return depth

    async with hw:
        await hw.lanes.set("main", max_concurrent=1)
        assert await (await hw.start("dig", params={"depth": 0})).result() == CHILD_DEPTH_MAX


@pytest.mark.proves("I5")
async def test_a_plain_function_can_start_children(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    def double(ctx: BlockingRunContext, number: int) -> int:
        return 2 * number

    @hw.job()
    def add_up(ctx: BlockingRunContext) -> int:
        children = [ctx.start("double", params={"number": n}) for n in (1, 2)]
        total: int = sum(child.result() for child in children)
        assert {child.status() for child in children} == {RunStatus.SUCCEEDED}
        return total + int(ctx.call("double", params={"number": 3}))

    async with hw:
        await hw.lanes.set("main", max_concurrent=1)
        assert await (await hw.start("add_up")).result() == 12


@pytest.mark.proves("I11")
async def test_a_child_that_ends_without_a_result_raises_in_the_parent(url: str) -> None:
    hw, child_ids = Headway(url), asyncio.Queue[str]()

    @hw.job()
    async def break_(ctx: RunContext) -> None:
        raise ValueError("no good")

    @hw.job()
    async def wait(ctx: RunContext) -> None:
        await asyncio.Event().wait()

    @hw.job()
    async def parent(ctx: RunContext, job: str) -> str:
        child = await ctx.start(job)
        child_ids.put_nowait(child.id)
        with pytest.raises(RunFailed) as failed:
            await child.result()
        assert failed.value.run_id == child.id
        return str(failed.value)

    async with hw:
        broken = await hw.start("parent", params={"job": "break_"})
        assert "is failed: ValueError: no good" in await broken.result()
        await child_ids.get()
        canceled = await hw.start("parent", params={"job": "wait"})
        await hw.run(await child_ids.get()).cancel()
        assert "is canceled" in await canceled.result()


@pytest.mark.proves("I11")
async def test_cancelling_a_parent_cancels_all_its_descendants(url: str) -> None:
    hw, begun, cleaned = Headway(url), asyncio.Queue[int](), asyncio.Queue[int]()

    @hw.job()
    async def nest(ctx: RunContext, depth: int) -> None:
        begun.put_nowait(depth)
        try:
            if depth:
                await ctx.call("nest", params={"depth": depth - 1})
            await asyncio.Event().wait()
        finally:
            cleaned.put_nowait(depth)

    async with hw:
        run = await hw.start("nest", params={"depth": 3})
        assert [await begun.get() for _ in range(4)] == [3, 2, 1, 0]
        await run.cancel(by="eve")
        ended = [await hw.run(record.run.id).wait_for_end() for record in await records_of(hw)]
        assert [record.run.status for record in ended] == [RunStatus.CANCELED] * 4
        assert sorted([await cleaned.get() for _ in range(4)]) == [0, 1, 2, 3]
        assert all('"by":"eve"' in (record.cancel or "") for record in ended)


@pytest.mark.proves("I11")
@pytest.mark.parametrize("ends", ["returns", "raises", "times out"])
async def test_children_that_are_still_active_end_with_their_parent(url: str, ends: str) -> None:
    hw, begun = Headway(url), asyncio.Event()

    @hw.job()
    async def wait(ctx: RunContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    @hw.job(timeout_s=0.1 if ends == "times out" else None)
    async def parent(ctx: RunContext) -> str:
        child = await ctx.start("wait")
        await begun.wait()
        if ends == "raises":
            raise ValueError("no good")
        if ends == "times out":
            await child.result()
        return child.id

    async with hw:
        run = await hw.start("parent")
        await run.wait_for_end()
        children = await records_of(hw)
        (child,) = [record for record in children if record.run.parent_id == run.id]
        ended = await hw.run(child.run.id).wait_for_end()
        assert ended.run.status is RunStatus.CANCELED
        assert '"reason":"parent_ended"' in (ended.cancel or "")


@pytest.mark.proves("R2.6")
async def test_a_retry_keeps_successful_children_and_repeats_failed_ones(url: str) -> None:
    hw, calls = Headway(url), list[str]()

    @hw.job()
    async def step(ctx: RunContext, name: str) -> str:
        calls.append(name)
        if name == "bad" and calls.count("bad") < 3:
            raise ValueError("not yet")
        return name

    @hw.job(retries=5, backoff=Backoff(base_s=0))
    async def parent(ctx: RunContext) -> list[str]:
        return [await ctx.call("step", params={"name": name}) for name in ("good", "bad", "good")]

    async with hw:
        assert await (await hw.start("parent")).result() == ["good", "bad", "good"]
    assert calls == ["good", "bad", "bad", "bad", "good"]


@pytest.mark.proves("I6")
async def test_parameters_and_name_identify_a_child_after_a_restart(url: str) -> None:
    """A restarted parent may call its children in another order; none of them runs twice."""
    hw, calls = Headway(url, stop_wait_s=0), list[int]()
    waits = asyncio.Event()

    @hw.job()
    async def note(ctx: RunContext, number: int) -> int:
        calls.append(number)
        return len(calls)

    @hw.job()
    async def parent(ctx: RunContext) -> list[int]:
        numbers = [1, 1, 2] if ctx.generation == 1 else [2, 1, 1, 3]
        results = [await ctx.call("note", params={"number": n}) for n in numbers]
        results.append(await ctx.call("note", params={"number": ctx.generation}, name="named"))
        if ctx.generation == 1:
            waits.set()
            await asyncio.Event().wait()
        return results

    async with hw:
        run = await hw.start("parent")
        await waits.wait()
    assert calls == [1, 1, 2, 1]
    async with hw:
        assert await hw.run(run.id).result() == [3, 1, 2, 5, 4]
    assert calls == [1, 1, 2, 1, 3]


@pytest.mark.proves("I15")
async def test_a_child_that_could_never_start_is_refused_with_a_reason(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def child(ctx: RunContext, key: str) -> str:
        with pytest.raises(ChildRefused, match=r"'top' is that of run .* waits for this one"):
            await ctx.start("other", key="top", on_conflict="replace")
        return "refused"

    @hw.job()
    async def other(ctx: RunContext) -> None: ...

    @hw.job()
    async def parent(ctx: RunContext) -> str:
        with pytest.raises(ChildRefused, match="key 'top' is the run's own"):
            await ctx.start("other", key=" top ", on_conflict="enqueue")
        with pytest.raises(InvalidInput, match="; a child is always a new run"):
            await ctx.start("other", key="bob", on_conflict="join")
        with pytest.raises(InvalidInput, match="job 'unknown' is not registered"):
            await ctx.start("unknown")
        with pytest.raises(KeyBusy, match="'busy' already has an active run"):
            await ctx.start("other", key="busy")
        await ctx.start("other", name="one")
        with pytest.raises(ChildRefused, match="of job 'other'; choose another name"):
            await ctx.start("child", name="one", params={"key": ""})
        refused: str = await ctx.call("child", params={"key": "top"})
        return refused

    async with hw:
        await hw.lanes.set("aside", is_paused=True)
        hw.job(name="idle", lane="aside")(other)
        await hw.start("idle", key="busy")
        assert await (await hw.start("parent", key="top")).result() == "refused"


@pytest.mark.proves("I19")
async def test_too_many_children_are_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitter, "ACTIVE_CHILD_COUNT_MAX", 2)
    hw = Headway(url)

    @hw.job()
    async def child(ctx: RunContext, number: int) -> int:
        return number

    @hw.job()
    async def parent(ctx: RunContext) -> int:
        started: list[ChildRun] = [await ctx.start("child", params={"number": n}) for n in range(2)]
        with pytest.raises(ChildRefused, match="it has 2 active children; wait for some of them"):
            await ctx.start("child", params={"number": 2})
        await started[0].result()
        total: int = await ctx.call("child", params={"number": 3}) + await started[1].result()
        return total

    async with hw:
        await hw.lanes.set("main", max_concurrent=1)
        assert await (await hw.start("parent")).result() == 4


async def test_explain_names_the_child_that_a_parent_waits_for(url: str) -> None:
    hw, begun, release = Headway(url), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def child(ctx: RunContext) -> None:
        begun.set()
        await release.wait()

    @hw.job()
    async def parent(ctx: RunContext) -> None:
        await ctx.call("child")

    async with hw:
        run = await hw.start("parent")
        await begun.wait()
        _, child_record = await records_of(hw)
        # The child may start before its parent has released its slot.
        async for _ in run.events():
            if (await run.record()).run.slot is None:
                break
        explanation = await hw.explain(run.id)
        assert (explanation.gate, explanation.holder_ids) == (Gate.CHILD, (child_record.run.id,))
        assert (await hw.explain(child_record.run.id)).parent_id == run.id
        release.set()
        await run.result()


@pytest.mark.proves("I8")
async def test_a_stop_does_not_wait_for_runs_without_a_slot(url: str) -> None:
    """Such a run could not get a slot back: the engine claims nothing during a stop."""
    hw, begun = Headway(url, stop_wait_s=3_600), asyncio.Event()

    @hw.job()
    async def wait(ctx: RunContext) -> str:
        if ctx.generation == 1:
            begun.set()
            await ctx.sleep(3_600)
        return "done"

    @hw.job()
    async def parent(ctx: RunContext) -> str:
        answer: str = await ctx.call("wait")
        return answer

    async with hw:
        run = await hw.start("parent")
        await begun.wait()
    async with hw:
        assert await hw.run(run.id).result() == "done"
        assert len(await records_of(hw)) == 2
