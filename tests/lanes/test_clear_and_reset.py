"""Clearing refuses waiting entries (R3.7); a reset restarts lanes within the process (R3.8)."""

import os
import signal

import pytest

from headway.lanes import LaneCleared, Lanes
from tests.lanes.scenes import WorkStage, settle


@pytest.mark.proves("R3.7")
async def test_clear_fails_waiting_entries_and_leaves_active_ones_alone(
    lanes: Lanes, stage: WorkStage
) -> None:
    active = await stage.call(lanes.run("cron", stage.work("active")))
    waiting = [await stage.call(lanes.run("cron", stage.work(f"w{n}"))) for n in range(3)]
    elsewhere = await stage.call(lanes.run("subagent", stage.work("elsewhere")))
    assert lanes.clear("cron") == 3
    for call in waiting:
        with pytest.raises(LaneCleared, match="lane 'cron' was cleared") as cleared:
            await call
        assert cleared.value.lane == "cron"
    assert lanes.view("cron").active
    await stage.release("active", "elsewhere")
    assert (await active, await elsewhere) == ("active done", "elsewhere done")
    assert stage.begun == ["active", "elsewhere"]


@pytest.mark.proves("R3.7")
async def test_cleared_lane_runs_later_entries(lanes: Lanes, stage: WorkStage) -> None:
    await stage.call(lanes.run("cron", stage.work("active")))
    await stage.call(lanes.run("cron", stage.work("cleared")))
    lanes.clear("cron")
    later = await stage.call(lanes.run("cron", stage.work("later")))
    await stage.release("active", "later")
    assert await later == "later done"


@pytest.mark.proves("R3.7")
def test_clearing_a_lane_without_waiting_entries_returns_zero(lanes: Lanes) -> None:
    assert lanes.clear("session:ann") == 0


@pytest.mark.proves("R3.7")
async def test_caller_cancelled_while_the_lane_is_cleared_is_cancelled(
    lanes: Lanes, stage: WorkStage
) -> None:
    await stage.call(lanes.run("cron", stage.work("active")))
    waiting = await stage.call(lanes.run("cron", stage.work("waiting")))
    waiting.cancel()
    assert lanes.clear("cron") == 1
    await settle()
    assert waiting.cancelled()
    assert lanes.view("cron").size == 1


@pytest.mark.proves("R3.8")
async def test_reset_starts_entries_that_wait_behind_one_that_never_ends(
    lanes: Lanes, stage: WorkStage
) -> None:
    await stage.call(lanes.run("cron", stage.work("stuck")))
    await stage.call(lanes.run("cron", stage.work("second")))
    await stage.call(lanes.run("cron", stage.work("third")))
    assert lanes.view("cron").generation == 0
    lanes.reset_all()
    await settle()
    assert stage.begun == ["stuck", "second"]
    view = lanes.view("cron")
    assert (view.generation, len(view.active), len(view.waiting)) == (1, 1, 1)


@pytest.mark.proves("R3.8")
async def test_work_from_before_a_reset_starts_no_entry_when_it_ends(
    lanes: Lanes, stage: WorkStage
) -> None:
    old = await stage.call(lanes.run("cron", stage.work("old")))
    await stage.call(lanes.run("cron", stage.work("new")))
    await stage.call(lanes.run("cron", stage.work("third")))
    lanes.reset_all()
    await stage.release("old")
    assert old.done()
    assert stage.begun == ["old", "new"], "the new one holds the slot"
    await stage.release("new")
    assert stage.begun == ["old", "new", "third"]


@pytest.mark.proves("R3.12")
async def test_stale_result_still_reaches_its_own_caller(lanes: Lanes, stage: WorkStage) -> None:
    old = await stage.call(lanes.run_in_session("ann", stage.work("old")))
    lanes.reset_all()
    await stage.release("old")
    assert await old == "old done"
    assert {view.size for view in lanes.views()} == {0}


@pytest.mark.proves("R3.8")
async def test_work_from_before_a_reset_does_not_affect_a_recreated_session_lane(
    lanes: Lanes, stage: WorkStage
) -> None:
    await stage.call(lanes.run("session:ann", stage.work("old")))
    lanes.reset_all()
    await stage.call(lanes.run("session:ann", stage.work("new")))
    await stage.call(lanes.run("session:ann", stage.work("third")))
    await stage.release("old")
    assert stage.begun == ["old", "new"]
    assert lanes.view("session:ann").generation == 1


@pytest.mark.proves("R3.8")
async def test_reset_applies_to_every_lane(lanes: Lanes, stage: WorkStage) -> None:
    for lane in ("main", "cron", "session:ann"):
        await stage.call(lanes.run(lane, stage.work(lane)))
    lanes.reset_all()
    lanes.reset_all()
    assert {(view.generation, view.size) for view in lanes.views()} == {(2, 0)}


@pytest.mark.proves("R3.8")
async def test_new_work_is_accepted_after_a_reset(lanes: Lanes, stage: WorkStage) -> None:
    lanes.refuse_new_work()
    lanes.reset_all()
    await stage.call(lanes.run("main", stage.work("a")))
    assert stage.begun == ["a"]


@pytest.mark.proves("R3.8")
async def test_sigusr1_resets_the_lanes_of_a_server(lanes: Lanes, stage: WorkStage) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    await stage.call(lanes.run("cron", stage.work("stuck")))
    await stage.call(lanes.run("cron", stage.work("second")))
    with lanes.reset_on_signal():
        os.kill(os.getpid(), signal.SIGUSR1)
        await settle()
    assert stage.begun == ["stuck", "second"]
    assert lanes.view("cron").generation == 1
    assert signal.getsignal(signal.SIGUSR1) == before


@pytest.mark.proves("R3.8")
async def test_previous_handler_of_sigusr1_is_restored(lanes: Lanes, stage: WorkStage) -> None:
    """The previous handler is the program's own, or that of outer lanes."""
    received: list[int] = []
    outer = Lanes()
    before = signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
    try:
        with outer.reset_on_signal():
            with lanes.reset_on_signal():
                pass
            os.kill(os.getpid(), signal.SIGUSR1)
            outer.refuse_new_work()
            await settle()
            await stage.call(outer.run("main", stage.work("a")))
        assert (stage.begun, received) == (["a"], [])
        os.kill(os.getpid(), signal.SIGUSR1)
        assert received == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)
