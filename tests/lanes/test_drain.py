"""Before a shutdown the lanes wait for active work and accept no more (R3.9, R3.12)."""

import asyncio

import pytest

from headway.lanes import Lanes, LanesDraining
from tests.lanes.scenes import WorkStage, settle


@pytest.mark.proves("R3.9")
async def test_drain_waits_for_work_in_all_lanes_that_was_active_when_it_began(
    lanes: Lanes, stage: WorkStage
) -> None:
    await stage.call(lanes.run("cron", stage.work("a")))
    await stage.call(lanes.run("session:ann", stage.work("b")))
    await stage.call(lanes.run("cron", stage.work("queued")))
    drained = asyncio.create_task(lanes.wait_for_active(timeout_s=5))
    await settle()
    await stage.call(lanes.run("subagent", stage.work("later")))
    await stage.release("a")
    assert not drained.done(), "b is still active"
    await stage.release("b")
    assert drained.done()
    assert drained.result() is True
    assert stage.begun == ["a", "b", "later", "queued"], "the drain waited for neither of the two"


@pytest.mark.proves("R3.9")
async def test_drain_that_times_out_returns_false_and_does_not_raise(
    lanes: Lanes, stage: WorkStage
) -> None:
    await stage.call(lanes.run("cron", stage.work("a")))
    assert await lanes.wait_for_active(timeout_s=0.01) is False
    assert lanes.view("cron").size == 1


@pytest.mark.proves("R3.9")
async def test_drain_polls_at_least_every_50_ms(stage: WorkStage) -> None:
    lanes, loop = Lanes(), asyncio.get_running_loop()
    await stage.call(lanes.run("cron", stage.work("a")))
    ended_s: list[float] = []

    async def end() -> None:
        await stage.release("a")
        ended_s.append(loop.time())

    drained = asyncio.create_task(lanes.wait_for_active(timeout_s=10))
    await settle()
    await end()
    assert await drained is True
    assert loop.time() - ended_s[0] < 0.05


@pytest.mark.proves("R3.9")
async def test_every_waiter_of_a_drain_is_notified(lanes: Lanes, stage: WorkStage) -> None:
    await stage.call(lanes.run("cron", stage.work("a")))
    waits = [asyncio.create_task(lanes.wait_for_active(timeout_s=5)) for _ in range(3)]
    await settle()
    await stage.release("a")
    assert [wait.result() for wait in waits] == [True] * 3
    assert lanes._end_watcher._waiters == []


@pytest.mark.proves("R3.9")
async def test_drain_does_not_wait_for_work_from_before_a_reset(
    lanes: Lanes, stage: WorkStage
) -> None:
    await stage.call(lanes.run("cron", stage.work("a")))
    drained = asyncio.create_task(lanes.wait_for_active(timeout_s=5))
    await settle()
    lanes.reset_all()
    await settle()
    assert drained.done()
    assert await drained is True


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize("timeout_s", [0, -1])
async def test_drain_with_a_timeout_of_zero_answers_at_once(
    lanes: Lanes, stage: WorkStage, timeout_s: float
) -> None:
    def answer() -> bool:
        with pytest.raises(StopIteration) as stopped:  # It did not yield to the loop.
            lanes.wait_for_active(timeout_s).send(None)
        return bool(stopped.value.value)

    assert answer() is True
    await stage.call(lanes.run("cron", stage.work("a")))
    assert answer() is False


@pytest.mark.proves("R3.12")
async def test_new_work_is_refused_while_draining_for_shutdown(
    lanes: Lanes, stage: WorkStage
) -> None:
    active = await stage.call(lanes.run("cron", stage.work("active")))
    queued = await stage.call(lanes.run("cron", stage.work("queued")))
    lanes.refuse_new_work()
    with pytest.raises(LanesDraining, match="lane 'main' accepts no new work") as refused:
        await lanes.run("main", stage.work("new"))
    assert refused.value.lane == "main"
    with pytest.raises(LanesDraining, match="session:ann"):
        await lanes.run_in_session("ann", stage.work("new"))
    await stage.release("active", "queued")
    assert (await active, await queued) == ("active done", "queued done")
    assert "new" not in stage.begun


@pytest.mark.proves("R3.12")
async def test_nested_work_of_accepted_work_is_accepted_while_new_work_is_refused(
    lanes: Lanes, stage: WorkStage
) -> None:
    lanes.set_limit("main", 1)
    await stage.call(lanes.run("main", stage.work("first")))
    gate = asyncio.Event()

    async def outer() -> str:
        await gate.wait()
        await lanes.run("main", stage.work("inner"))
        return await lanes.run("main", stage.work("inner again"))

    call = await stage.call(lanes.run("session:ann", outer))
    lanes.refuse_new_work()
    gate.set()
    await settle()
    assert lanes.view("main").size == 2, "it was accepted and waits for its turn"
    await stage.release("first")
    await stage.release("inner")
    await stage.release("inner again")
    assert await call == "inner again done"


@pytest.mark.proves("R3.12")
async def test_call_from_a_task_whose_accepted_work_has_ended_counts_as_new_work(
    lanes: Lanes, stage: WorkStage
) -> None:
    gate = asyncio.Event()
    stragglers: list[asyncio.Task[str]] = []

    async def straggle() -> str:
        await gate.wait()
        return await lanes.run("main", stage.work("new"))

    async def outer() -> str:
        stragglers.append(asyncio.create_task(straggle()))
        return "done"

    await lanes.run("session:ann", outer)
    lanes.refuse_new_work()
    gate.set()
    with pytest.raises(LanesDraining):
        await stragglers[0]
