"""A task inherits the cancellation, the context and the deadline of its caller (R3.12)."""

import asyncio
from contextvars import ContextVar

import pytest

from headway.lanes import Lanes, TaskTimedOut
from tests.lanes.scenes import WorkStage, log_records, settle

request_id: ContextVar[str] = ContextVar("request_id", default="none")


async def hang() -> str:
    await asyncio.Event().wait()
    return "never"


class Stubborn:
    """Work that ignores a cancel and ends only when it is released."""

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
async def test_cancelling_one_queued_entry_keeps_the_order_of_the_others(
    lanes: Lanes, stage: WorkStage
) -> None:
    calls = [await stage.call(lanes.run("cron", stage.work(str(n)))) for n in range(5)]
    calls[2].cancel()
    await settle()
    assert calls[2].cancelled()
    assert lanes.view("cron").size == 4
    assert len(lanes._start_signals._waiters) == 3, "its timer was removed as well"
    await stage.release("0", "1", "2", "3", "4")
    assert stage.begun == ["0", "1", "3", "4"]


@pytest.mark.proves("R3.12")
async def test_next_entry_gets_the_slot_of_an_entry_that_is_cancelled_as_it_starts(
    lanes: Lanes, stage: WorkStage
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
        await stage.release(f"first {cancel_first}", f"last {cancel_first}")
        assert lanes.view("cron").size == 0
    assert "called" not in stage.begun


@pytest.mark.proves("R3.12")
async def test_cancelling_a_call_in_a_session_frees_both_lanes(
    lanes: Lanes, stage: WorkStage
) -> None:
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
async def test_task_keeps_the_context_of_its_caller(
    lanes: Lanes, stage: WorkStage, timeout_s: float | None
) -> None:
    async def read_request_id() -> str:
        await asyncio.sleep(0)
        return request_id.get()

    async def caller(name: str) -> str:
        request_id.set(name)
        return await lanes.run_in_session("ann", read_request_id, timeout_s=timeout_s)

    calls = [await stage.call(caller(name)) for name in ("ann", "bob", "cy")]
    assert [await call for call in calls] == ["ann", "bob", "cy"]
    assert request_id.get() == "none"


@pytest.mark.proves("R3.12")
async def test_timeout_cancels_the_task_and_frees_the_lane(
    lanes: Lanes, stage: WorkStage, caplog: pytest.LogCaptureFixture
) -> None:
    slow = await stage.call(lanes.run("cron", hang, timeout_s=0.01))
    await stage.call(lanes.run("cron", stage.work("next")))
    with pytest.raises(
        TaskTimedOut, match=r"took longer than 0\.01 s and was canceled"
    ) as timed_out:
        await slow
    assert isinstance(timed_out.value, TimeoutError)
    assert (timed_out.value.lane, timed_out.value.is_still_running) == ("cron", False)
    await settle()
    assert stage.begun == ["next"]
    assert lanes.left_behind_count == 0
    assert len(log_records(caplog, "lane_task_failed")) == 1


@pytest.mark.proves("R3.12")
async def test_timeout_frees_both_lanes_even_if_the_task_ignores_its_cancel(
    lanes: Lanes, stage: WorkStage
) -> None:
    lanes.set_limit("main", 1)
    stubborn = Stubborn()
    slow = await stage.call(lanes.run_in_session("ann", stubborn, timeout_s=0.01))
    await stage.call(lanes.run_in_session("ann", stage.work("next")))
    with pytest.raises(TaskTimedOut, match="ignored its cancellation") as timed_out:
        await slow
    await settle()
    assert (timed_out.value.is_still_running, stubborn.cancel_count) == (True, 1)
    assert stage.begun == ["next"]
    assert lanes.left_behind_count == 1
    stubborn.may_end.set()
    await settle()
    assert lanes.left_behind_count == 0
    assert lanes.view("main").size == 1, "its late end frees nothing a second time"


@pytest.mark.proves("R3.12")
async def test_task_that_ends_in_time_is_not_affected_by_its_timeout(
    lanes: Lanes, stage: WorkStage
) -> None:
    call = await stage.call(lanes.run("cron", stage.work("a"), timeout_s=5))
    await stage.release("a")
    assert await call == "a done"

    async def fail() -> str:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        await lanes.run("cron", fail, timeout_s=5)


@pytest.mark.proves("R3.12")
async def test_work_cancelled_by_its_timeout_may_still_return_a_result(
    lanes: Lanes,
) -> None:
    async def finish_quickly() -> str:
        try:
            return await hang()
        except asyncio.CancelledError:
            return "saved"

    assert await lanes.run("cron", finish_quickly, timeout_s=0.01) == "saved"


@pytest.mark.proves("R3.12")
async def test_time_in_the_queue_does_not_count_towards_the_timeout(
    lanes: Lanes, stage: WorkStage
) -> None:
    await stage.call(lanes.run("cron", stage.work("first")))
    waiting = await stage.call(lanes.run("cron", stage.work("last"), timeout_s=0.05))
    await asyncio.sleep(0.06)
    await stage.release("first", "last")
    assert await waiting == "last done"


@pytest.mark.proves("R3.12")
async def test_work_with_a_timeout_is_cancelled_only_once_by_its_caller(
    lanes: Lanes, stage: WorkStage
) -> None:
    stubborn = Stubborn()
    call = await stage.call(lanes.run("cron", stubborn, timeout_s=60))
    call.cancel()
    await settle()
    assert stubborn.cancel_count == 1
    assert not call.done(), "it may clean up during the grace period"
    await asyncio.wait([call], timeout=5)
    assert call.cancelled()
    assert (stubborn.cancel_count, lanes.view("cron").size, lanes.left_behind_count) == (1, 0, 1)
    stubborn.may_end.set()
    await settle()
    assert lanes.left_behind_count == 0


@pytest.mark.proves("R3.12")
async def test_cancelling_the_caller_in_the_grace_period_does_not_disturb_the_cleanup(
    stage: WorkStage,
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
async def test_late_error_of_an_abandoned_task_is_logged(
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
    (record,) = log_records(caplog, "lane_task_ended_late")
    assert record.exc_info is not None
    assert "too late" in str(record.exc_info[1])
