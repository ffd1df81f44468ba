"""Those who wait for long: warned of once, and never cancelled for it (R3.2, R3.12)."""

import asyncio
import logging
from contextvars import ContextVar

import pytest

from headway.lanes import ActiveTask, Lanes
from tests.lanes.scenes import Seconds, Stage, events_of


class Heard(list[tuple[float, int, tuple[ActiveTask, ...]]]):
    """All that an `on_wait` was told."""

    def __init__(self) -> None:
        super().__init__()
        self.something = asyncio.Event()

    def on_wait(self, waited_s: float, ahead_count: int, active: tuple[ActiveTask, ...]) -> None:
        self.append((waited_s, ahead_count, active))
        self.something.set()

    async def hears(self) -> None:
        async with asyncio.timeout(5):
            await self.something.wait()


@pytest.mark.proves("R3.2")
@pytest.mark.parametrize(("waited_s", "warning_count"), [(1.75, 0), (2.0, 1), (7.0, 1)])
async def test_a_wait_of_two_seconds_is_warned_of_once(
    stage: Stage,
    clock: Seconds,
    caplog: pytest.LogCaptureFixture,
    waited_s: float,
    warning_count: int,
) -> None:
    lanes, heard = Lanes(clock=clock), Heard()
    await stage.call(lanes.run("cron", stage.work("first")))
    last = await stage.call(lanes.run("cron", stage.work("last"), on_wait=heard.on_wait))
    clock.advance(waited_s)
    await stage.let_go("first", "last")
    assert list(heard) == [(waited_s, 0, ())] * warning_count
    assert len(events_of(caplog, "lane_waited")) == warning_count
    assert await last == "last done"


@pytest.mark.proves("R3.2")
async def test_the_warning_comes_while_it_still_waits(stage: Stage) -> None:
    heard = Heard()
    lanes = Lanes()
    await stage.call(lanes.run("cron", stage.work("first"), name="first"))
    await stage.call(lanes.run("cron", stage.work("second")))
    waiting = lanes.run("cron", stage.work("third"), warn_after_s=0.01, on_wait=heard.on_wait)
    await stage.call(waiting)
    await heard.hears()
    ((waited_s, ahead_count, active),) = heard
    assert 0.01 <= waited_s < 5
    assert ahead_count == 1
    assert [(task.name, 0 <= task.active_s < 5) for task in active] == [("first", True)]
    await stage.let_go("first", "second", "third")
    assert stage.begun == ["first", "second", "third"]
    assert len(heard) == 1


@pytest.mark.proves("R3.2")
async def test_a_timer_that_rings_early_by_our_clock_is_set_again(
    lanes: Lanes, stage: Stage, clock: Seconds
) -> None:
    heard = Heard()
    await stage.call(lanes.run("cron", stage.work("first")))
    waiting = lanes.run("cron", stage.work("last"), warn_after_s=0.01, on_wait=heard.on_wait)
    await stage.call(waiting)
    await asyncio.sleep(0.03)
    assert heard == []
    clock.advance(0.01)
    await heard.hears()
    assert stage.begun == ["first"]


@pytest.mark.proves("R3.2")
async def test_who_has_started_is_not_warned_of_any_more(
    lanes: Lanes, stage: Stage, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    await stage.call(lanes.run("cron", stage.work("first")))
    waiting = lanes.run("cron", stage.work("last"), warn_after_s=0.01, on_wait=heard.on_wait)
    await stage.call(waiting)
    await stage.let_go("first")
    clock.advance(1)
    await asyncio.sleep(0.02)
    assert (stage.begun, heard, caplog.records) == (["first", "last"], [], [])


@pytest.mark.proves("R3.2")
async def test_who_starts_at_once_has_not_waited(lanes: Lanes, stage: Stage) -> None:
    heard = Heard()
    waiting = lanes.run("cron", stage.work("a"), warn_after_s=0.0, on_wait=heard.on_wait)
    await stage.call(waiting)
    await stage.let_go("a")
    assert heard == []


@pytest.mark.proves("R3.12")
async def test_an_on_wait_that_raises_does_not_stop_the_lane(
    lanes: Lanes, stage: Stage, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("in on_wait")

    await stage.call(lanes.run("cron", stage.work("first")))
    second = await stage.call(lanes.run("cron", stage.work("second"), on_wait=explode))
    third = await stage.call(lanes.run("cron", stage.work("third"), on_wait=explode))
    clock.advance(3)
    await stage.let_go("first", "second", "third")
    assert (await second, await third) == ("second done", "third done")
    assert caplog.text.count("RuntimeError: in on_wait") == 2


@pytest.mark.proves("R3.12")
async def test_on_wait_has_the_context_of_whoever_enqueued(
    lanes: Lanes, stage: Stage, clock: Seconds
) -> None:
    request: ContextVar[str] = ContextVar("request", default="nobody")
    heard: list[str] = []

    async def waits() -> str:
        request.set("ann")
        return await lanes.run(
            "cron", stage.work("last"), on_wait=lambda *_: heard.append(request.get())
        )

    await stage.call(lanes.run("cron", stage.work("first")))
    await stage.call(waits())
    clock.advance(3)
    await stage.let_go("first", "last")
    assert heard == ["ann"]


class Meddler(logging.Handler):
    """A log handler that changes a limit, and breaks."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__()
        self._lanes = lanes

    def emit(self, record: logging.LogRecord) -> None:
        self._lanes.set_limit("cron", 3)
        raise RuntimeError(record.msg)


@pytest.mark.proves("R3.12")
async def test_a_log_handler_that_meddles_and_breaks_changes_no_order(
    lanes: Lanes, stage: Stage, clock: Seconds
) -> None:
    for name in ("first", "second", "third"):
        await stage.call(lanes.run("cron", stage.work(name)))
    clock.advance(3)
    log, meddler = logging.getLogger("headway.lanes.start_signals"), Meddler(lanes)
    log.addHandler(meddler)
    try:
        await stage.let_go("first")
    finally:
        log.removeHandler(meddler)
    assert stage.begun == ["first", "second", "third"]
