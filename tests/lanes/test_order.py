"""Order within a session, limits across sessions, and failures (R3.3, R3.5, R3.6, R3.13)."""

import asyncio
from functools import partial

import pytest

from headway.lanes import LaneCleared, Lanes, Priority
from tests.lanes.scenes import WorkStage, log_records, settle


async def fail() -> str:
    raise ValueError("as it must")


@pytest.mark.proves("R3.13")
async def test_ten_messages_to_one_session_are_answered_in_order(lanes: Lanes) -> None:
    answered: list[int] = []
    active_count = 0

    async def answer(number: int) -> int:
        nonlocal active_count
        active_count += 1
        assert active_count == 1
        for _ in range(10 - number):  # The later ones are faster, and still have to wait.
            await asyncio.sleep(0)
        answered.append(number)
        active_count -= 1
        return number

    answers = await asyncio.gather(
        *(lanes.run_in_session("ann", partial(answer, number)) for number in range(10))
    )
    assert answers == answered == [*range(10)]


@pytest.mark.proves("R3.13")
async def test_two_sessions_run_at_once_and_do_not_block_each_other(
    lanes: Lanes, stage: WorkStage
) -> None:
    await stage.call(lanes.run_in_session("ann", stage.work("ann 1")))
    await stage.call(lanes.run_in_session("ann", stage.work("ann 2")))
    bob = await stage.call(lanes.run_in_session("bob", stage.work("bob 1")))
    assert stage.begun == ["ann 1", "bob 1"]
    await stage.release("bob 1")
    assert bob.result() == "bob 1 done"
    assert stage.begun == ["ann 1", "bob 1"]


@pytest.mark.proves("R3.3")
async def test_session_holds_its_lane_while_it_waits_for_the_global_one(
    lanes: Lanes, stage: WorkStage
) -> None:
    lanes.set_limit("main", 1)
    for name in ("ann 1", "ann 2"):
        await stage.call(lanes.run_in_session("ann", stage.work(name)))
    await stage.call(lanes.run_in_session("bob", stage.work("bob 1")))
    assert (stage.begun, lanes.view("main").size) == (["ann 1"], 2)
    assert (lanes.view("session:ann").size, lanes.view("session:bob").size) == (2, 1)
    await stage.release("ann 1")
    # The second call of Ann reaches the global lane after Bob's, though it was sent before.
    assert stage.begun == ["ann 1", "bob 1"]
    await stage.release("bob 1")
    assert stage.begun == ["ann 1", "bob 1", "ann 2"]


@pytest.mark.proves("R3.3")
async def test_session_lane_and_global_lane_can_be_nested_by_hand(lanes: Lanes) -> None:
    async def work() -> str:
        return "done"

    assert await lanes.run("session:ann", lambda: lanes.run("main", work)) == "done"


@pytest.mark.proves("R3.3")
async def test_session_keeps_its_order_at_any_priority(lanes: Lanes, stage: WorkStage) -> None:
    for name, priority in [("1", Priority.NORMAL), ("2", Priority.BACKGROUND)]:
        await stage.call(lanes.run_in_session("ann", stage.work(name), priority=priority))
    await stage.call(lanes.run_in_session("ann", stage.work("3"), priority=Priority.FOREGROUND))
    await stage.release("1", "2", "3")
    assert stage.begun == ["1", "2", "3"]


@pytest.mark.proves("R3.12")
async def test_urgent_calls_go_first_in_a_global_lane(lanes: Lanes, stage: WorkStage) -> None:
    await stage.call(lanes.run("cron", stage.work("first")))
    await stage.call(lanes.run("cron", stage.work("b"), priority=Priority.BACKGROUND))
    await stage.call(lanes.run("cron", stage.work("n")))
    await stage.call(lanes.run("cron", stage.work("f"), priority=Priority.FOREGROUND))
    await stage.release("first", "f", "n", "b")
    assert stage.begun == ["first", "f", "n", "b"]


@pytest.mark.proves("R3.5")
@pytest.mark.parametrize("lane", ["cron", "session:ann", "session:probe-1"])
async def test_failure_does_not_block_the_lane(lanes: Lanes, stage: WorkStage, lane: str) -> None:
    await stage.call(lanes.run(lane, stage.work("first")))
    failing = await stage.call(lanes.run(lane, fail))
    last = await stage.call(lanes.run(lane, stage.work("last")))
    await stage.release("first", "last")
    with pytest.raises(ValueError, match="as it must"):
        await failing
    assert await last == "last done"
    assert lanes.view(lane).size == 0


@pytest.mark.proves("R3.5")
async def test_cancel_of_an_active_call_starts_the_next(lanes: Lanes, stage: WorkStage) -> None:
    first = await stage.call(lanes.run("cron", stage.work("first")))
    await stage.call(lanes.run("cron", stage.work("last")))
    first.cancel()
    await settle()
    assert first.cancelled()
    assert stage.begun == ["first", "last"]


@pytest.mark.proves("R3.6")
@pytest.mark.parametrize("lane", ["auth-probe:mail", "session:probe-1"])
async def test_failure_in_a_probe_lane_is_not_logged(
    lanes: Lanes, caplog: pytest.LogCaptureFixture, lane: str
) -> None:
    with pytest.raises(ValueError, match="as it must"):
        await lanes.run(lane, fail)
    assert caplog.records == []


@pytest.mark.proves("R3.6")
async def test_failure_in_a_probe_session_is_not_logged_by_the_global_lane(
    lanes: Lanes, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="as it must"):
        await lanes.run_in_session("probe-1", fail)
    assert caplog.records == []


@pytest.mark.proves("R3.6")
async def test_failure_in_a_session_is_logged_once_for_both_lanes(
    lanes: Lanes, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="as it must"):
        await lanes.run_in_session("ann", fail, name="greet")
    (record,) = log_records(caplog, "lane_task_failed")
    assert (record.levelname, vars(record)["lane"]) == ("ERROR", "session:ann")
    assert vars(record)["task_name"] == "greet"


@pytest.mark.proves("R3.6")
async def test_cancelled_and_cleared_entries_are_not_logged_as_failures(
    lanes: Lanes, stage: WorkStage, caplog: pytest.LogCaptureFixture
) -> None:
    lanes.set_limit("main", 0)
    canceled = await stage.call(lanes.run_in_session("ann", stage.work("a")))
    cleared = await stage.call(lanes.run_in_session("bob", stage.work("b")))
    canceled.cancel()
    await settle()
    lanes.clear("main")
    with pytest.raises(LaneCleared):
        await cleared
    assert log_records(caplog, "lane_task_failed") == []
