"""Long waits are reported once, and never cancelled (R3.2, R3.12)."""

import asyncio
import logging
from contextvars import ContextVar

import pytest

from headway.lanes import ActiveTask, Lanes
from tests.lanes.scenes import ManualClock, WorkStage, log_records


class WaitRecorder(list[tuple[float, int, tuple[ActiveTask, ...]]]):
    """Stores the arguments of every `on_wait` call."""

    def __init__(self) -> None:
        super().__init__()
        self.has_call = asyncio.Event()

    def on_wait(self, waited_s: float, ahead_count: int, active: tuple[ActiveTask, ...]) -> None:
        self.append((waited_s, ahead_count, active))
        self.has_call.set()

    async def wait_for_call(self) -> None:
        async with asyncio.timeout(5):
            await self.has_call.wait()


@pytest.mark.proves("R3.2")
@pytest.mark.parametrize(("waited_s", "warning_count"), [(1.75, 0), (2.0, 1), (7.0, 1)])
async def test_wait_of_two_seconds_is_reported_once(
    stage: WorkStage,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    waited_s: float,
    warning_count: int,
) -> None:
    lanes, waits = Lanes(clock=clock), WaitRecorder()
    await stage.call(lanes.run("cron", stage.work("first")))
    last = await stage.call(lanes.run("cron", stage.work("last"), on_wait=waits.on_wait))
    clock.advance(waited_s)
    await stage.release("first", "last")
    assert list(waits) == [(waited_s, 0, ())] * warning_count
    assert len(log_records(caplog, "lane_wait_exceeded")) == warning_count
    assert await last == "last done"


@pytest.mark.proves("R3.2")
async def test_long_wait_is_reported_while_the_entry_still_waits(stage: WorkStage) -> None:
    waits = WaitRecorder()
    lanes = Lanes()
    await stage.call(lanes.run("cron", stage.work("first"), name="first"))
    await stage.call(lanes.run("cron", stage.work("second")))
    waiting = lanes.run("cron", stage.work("third"), warn_after_s=0.01, on_wait=waits.on_wait)
    await stage.call(waiting)
    await waits.wait_for_call()
    ((waited_s, ahead_count, active),) = waits
    assert 0.01 <= waited_s < 5
    assert ahead_count == 1
    assert [(task.name, 0 <= task.active_s < 5) for task in active] == [("first", True)]
    await stage.release("first", "second", "third")
    assert stage.begun == ["first", "second", "third"]
    assert len(waits) == 1


@pytest.mark.proves("R3.2")
async def test_timer_that_fires_too_early_by_the_clock_of_the_lanes_is_set_again(
    lanes: Lanes, stage: WorkStage, clock: ManualClock
) -> None:
    waits = WaitRecorder()
    await stage.call(lanes.run("cron", stage.work("first")))
    waiting = lanes.run("cron", stage.work("last"), warn_after_s=0.01, on_wait=waits.on_wait)
    await stage.call(waiting)
    await asyncio.sleep(0.03)
    assert waits == []
    clock.advance(0.01)
    await waits.wait_for_call()
    assert stage.begun == ["first"]


@pytest.mark.proves("R3.2")
async def test_started_entry_is_not_reported_any_more(
    lanes: Lanes, stage: WorkStage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    waits = WaitRecorder()
    await stage.call(lanes.run("cron", stage.work("first")))
    waiting = lanes.run("cron", stage.work("last"), warn_after_s=0.01, on_wait=waits.on_wait)
    await stage.call(waiting)
    await stage.release("first")
    clock.advance(1)
    await asyncio.sleep(0.02)
    assert (stage.begun, waits, caplog.records) == (["first", "last"], [], [])


@pytest.mark.proves("R3.2")
async def test_entry_that_starts_at_once_has_not_waited(lanes: Lanes, stage: WorkStage) -> None:
    waits = WaitRecorder()
    waiting = lanes.run("cron", stage.work("a"), warn_after_s=0.0, on_wait=waits.on_wait)
    await stage.call(waiting)
    await stage.release("a")
    assert waits == []


@pytest.mark.proves("R3.12")
async def test_on_wait_that_raises_does_not_stop_the_lane(
    lanes: Lanes, stage: WorkStage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("in on_wait")

    await stage.call(lanes.run("cron", stage.work("first")))
    second = await stage.call(lanes.run("cron", stage.work("second"), on_wait=explode))
    third = await stage.call(lanes.run("cron", stage.work("third"), on_wait=explode))
    clock.advance(3)
    await stage.release("first", "second", "third")
    assert (await second, await third) == ("second done", "third done")
    assert caplog.text.count("RuntimeError: in on_wait") == 2


@pytest.mark.proves("R3.12")
async def test_on_wait_has_the_context_of_the_caller(
    lanes: Lanes, stage: WorkStage, clock: ManualClock
) -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    callers: list[str] = []

    async def wait_for_cron() -> str:
        request.set("ann")
        return await lanes.run(
            "cron", stage.work("last"), on_wait=lambda *_: callers.append(request.get())
        )

    await stage.call(lanes.run("cron", stage.work("first")))
    await stage.call(wait_for_cron())
    clock.advance(3)
    await stage.release("first", "last")
    assert callers == ["ann"]


class MeddlingHandler(logging.Handler):
    """A log handler that changes a limit and then raises."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__()
        self._lanes = lanes

    def emit(self, record: logging.LogRecord) -> None:
        self._lanes.set_limit("cron", 3)
        raise RuntimeError(record.msg)


@pytest.mark.proves("R3.12")
async def test_entries_keep_their_order_if_a_log_handler_changes_limits_and_raises(
    lanes: Lanes, stage: WorkStage, clock: ManualClock
) -> None:
    for name in ("first", "second", "third"):
        await stage.call(lanes.run("cron", stage.work(name)))
    clock.advance(3)
    log, meddler = logging.getLogger("headway.lanes.start_signals"), MeddlingHandler(lanes)
    log.addHandler(meddler)
    try:
        await stage.release("first")
    finally:
        log.removeHandler(meddler)
    assert stage.begun == ["first", "second", "third"]
