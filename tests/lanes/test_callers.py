"""What a task has of its caller: its cancellation, its context, its deadline (R3.12)."""

import asyncio
from contextvars import ContextVar

import pytest

from headway.lanes import Lanes, TaskTimedOut
from tests.lanes.scenes import Stage, events_of, settle

request_id: ContextVar[str] = ContextVar("request_id", default="none")


async def hang() -> str:
    await asyncio.Event().wait()
    return "never"


class Stubborn:
    """Work that does not heed a cancel: it ends when it is told to, and not before."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.was_cancelled = asyncio.Event()
        self.cancel_count = 0

    async def __call__(self) -> str:
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancel_count += 1
                self.was_cancelled.set()
        return "late"


@pytest.mark.proves("R3.12")
async def test_cancelling_one_queued_entry_leaves_the_others_their_places(
    lanes: Lanes, stage: Stage
) -> None:
    calls = [await stage.call(lanes.run("cron", stage.work(str(n)))) for n in range(5)]
    calls[2].cancel()
    await settle()
    assert calls[2].cancelled()
    assert lanes.view("cron").size == 4
    assert len(lanes._start_signals._waiters) == 3, "its timer has gone with it"
    await stage.let_go("0", "1", "2", "3", "4")
    assert stage.begun == ["0", "1", "3", "4"]


@pytest.mark.proves("R3.12")
async def test_who_is_cancelled_in_the_moment_of_its_turn_passes_it_on(
    lanes: Lanes, stage: Stage
) -> None:
    for cancel_first in (True, False):
        await stage.call(lanes.run("cron", stage.work(f"first {cancel_first}")))
        called = await stage.call(lanes.run("cron", stage.work("called")))
        await stage.call(lanes.run("cron", stage.work(f"last {cancel_first}")))
        if cancel_first:
            called.cancel()
            lanes.set_limit("cron", 2)
        else:
            lanes.set_limit("cron", 2)
            called.cancel()
        await settle()
        assert called.cancelled()
        lanes.set_limit("cron", 1)
        assert lanes.view("cron").size == 2
        await stage.let_go(f"first {cancel_first}", f"last {cancel_first}")
        assert lanes.view("cron").size == 0
    assert "called" not in stage.begun


@pytest.mark.proves("R3.12")
async def test_cancelling_a_call_in_a_session_frees_both_lanes(lanes: Lanes, stage: Stage) -> None:
    lanes.set_limit("main", 1)
    active = await stage.call(lanes.run_in_session("ann", stage.work("a")))
    waiting = await stage.call(lanes.run_in_session("bob", stage.work("b")))
    waiting.cancel()
    active.cancel()
    await settle()
    assert {view.size for view in lanes.views()} == {0}
    assert [view.name for view in lanes.views()] == ["cron", "main", "subagent"]


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize("timeout_s", [None, 5.0])
async def test_a_task_keeps_the_context_of_whoever_enqueued_it(
    lanes: Lanes, stage: Stage, timeout_s: float | None
) -> None:
    async def tell() -> str:
        await asyncio.sleep(0)
        return request_id.get()

    async def caller(name: str) -> str:
        request_id.set(name)
        return await lanes.run_in_session("ann", tell, timeout_s=timeout_s)

    calls = [await stage.call(caller(name)) for name in ("ann", "bob", "cy")]
    assert [await call for call in calls] == ["ann", "bob", "cy"]
    assert request_id.get() == "none"


@pytest.mark.proves("R3.12")
async def test_a_timeout_cancels_the_task_and_frees_the_lane(
    lanes: Lanes, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    slow = await stage.call(lanes.run("cron", hang, timeout_s=0.01))
    await stage.call(lanes.run("cron", stage.work("next")))
    with pytest.raises(TaskTimedOut, match=r"took longer than 0\.01 s and was cancelled") as late:
        await slow
    assert isinstance(late.value, TimeoutError)
    assert (late.value.lane, late.value.is_still_running) == ("cron", False)
    await settle()
    assert stage.begun == ["next"]
    assert lanes.left_behind_count == 0
    assert len(events_of(caplog, "lane_task_failed")) == 1


@pytest.mark.proves("R3.12")
async def test_a_timeout_frees_both_lanes_even_when_the_task_will_not_die(
    lanes: Lanes, stage: Stage
) -> None:
    lanes.set_limit("main", 1)
    stubborn = Stubborn()
    slow = await stage.call(lanes.run_in_session("ann", stubborn, timeout_s=0.01))
    await stage.call(lanes.run_in_session("ann", stage.work("next")))
    with pytest.raises(TaskTimedOut, match="will not stop") as late:
        await slow
    await settle()
    assert (late.value.is_still_running, stubborn.cancel_count) == (True, 1)
    assert stage.begun == ["next"]
    assert lanes.left_behind_count == 1
    stubborn.may_end.set()
    await settle()
    assert lanes.left_behind_count == 0
    assert lanes.view("main").size == 1, "its late end has freed nothing a second time"


@pytest.mark.proves("R3.12")
async def test_a_task_in_time_is_not_touched_by_its_timeout(lanes: Lanes, stage: Stage) -> None:
    call = await stage.call(lanes.run("cron", stage.work("a"), timeout_s=5))
    await stage.let_go("a")
    assert await call == "a done"

    async def fail() -> str:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        await lanes.run("cron", fail, timeout_s=5)


@pytest.mark.proves("R3.12")
async def test_a_result_in_answer_to_the_timeouts_cancel_is_the_result(
    lanes: Lanes,
) -> None:
    async def finish_quickly() -> str:
        try:
            return await hang()
        except asyncio.CancelledError:
            return "saved"

    assert await lanes.run("cron", finish_quickly, timeout_s=0.01) == "saved"


@pytest.mark.proves("R3.12")
async def test_the_time_in_the_queue_does_not_count_as_work(lanes: Lanes, stage: Stage) -> None:
    await stage.call(lanes.run("cron", stage.work("first")))
    waiting = await stage.call(lanes.run("cron", stage.work("last"), timeout_s=0.05))
    await asyncio.sleep(0.06)
    await stage.let_go("first", "last")
    assert await waiting == "last done"


@pytest.mark.proves("R3.12")
async def test_a_callers_cancel_reaches_work_with_a_timeout_once(
    lanes: Lanes, stage: Stage
) -> None:
    stubborn = Stubborn()
    call = await stage.call(lanes.run("cron", stubborn, timeout_s=60))
    call.cancel()
    await settle()
    assert stubborn.cancel_count == 1
    assert not call.done(), "it has its grace to clean up"
    await asyncio.wait([call], timeout=5)
    assert call.cancelled()
    assert (stubborn.cancel_count, lanes.view("cron").size, lanes.left_behind_count) == (1, 0, 1)
    stubborn.may_end.set()
    await settle()
    assert lanes.left_behind_count == 0


@pytest.mark.proves("R3.12")
async def test_a_caller_cancelled_during_the_grace_does_not_disturb_the_cleanup(
    stage: Stage,
) -> None:
    lanes, stubborn = Lanes(grace_s=60), Stubborn()
    call = await stage.call(lanes.run("cron", stubborn, timeout_s=0.001))
    async with asyncio.timeout(5):
        await stubborn.was_cancelled.wait()
    call.cancel()
    await settle()
    assert call.cancelled()
    assert (stubborn.cancel_count, lanes.view("cron").size, lanes.left_behind_count) == (1, 0, 1)
    stubborn.may_end.set()
    await settle()


@pytest.mark.proves("R3.12")
async def test_the_late_error_of_a_task_left_behind_is_logged(
    lanes: Lanes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stubborn = Stubborn()

    async def fail_late() -> str:
        await stubborn()
        raise ValueError("too late")

    with pytest.raises(TaskTimedOut):
        await lanes.run("cron", fail_late, timeout_s=0.01)
    stubborn.may_end.set()
    await settle()
    (record,) = events_of(caplog, "lane_task_ended_late")
    assert record.exc_info is not None
    assert "too late" in str(record.exc_info[1])
