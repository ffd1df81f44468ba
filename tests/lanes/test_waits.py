"""Those who wait for long: warned of once, and never cancelled for it (R3.2, R3.12)."""

import asyncio
import logging
from contextvars import ContextVar
from typing import Any

import pytest

from headway.lanes import ActiveTask, Lanes
from tests.lanes.scenes import Seconds, Stage, events_of, settle

Heard = list[tuple[float, int, tuple[ActiveTask, ...]]]


def listener(heard: Heard) -> Any:
    return lambda *wait: heard.append(wait)


@pytest.mark.parametrize(("waited_s", "warning_count"), [(1.99, 0), (2.0, 1), (7.0, 1)])
async def test_r3_2_a_wait_of_two_seconds_is_warned_of_once(
    lanes: Lanes,
    stage: Stage,
    clock: Seconds,
    caplog: pytest.LogCaptureFixture,
    waited_s: float,
    warning_count: int,
) -> None:
    heard: Heard = []
    await stage.call(lanes.run("cron", stage.work("first")))
    last = await stage.call(lanes.run("cron", stage.work("last"), on_wait=listener(heard)))
    clock.advance(waited_s)
    await stage.let_go("first", "last")
    assert [wait[0] for wait in heard] == [pytest.approx(waited_s)] * warning_count
    assert len(events_of(caplog, "lane_waited")) == warning_count
    assert await last == "last done"


async def test_r3_2_the_warning_comes_while_it_still_waits(stage: Stage) -> None:
    heard: Heard = []
    lanes = Lanes()
    await stage.call(lanes.run("cron", stage.work("first"), name="first"))
    await stage.call(lanes.run("cron", stage.work("second")))
    waiting = lanes.run("cron", stage.work("third"), warn_after_s=0.01, on_wait=listener(heard))
    await stage.call(waiting)
    async with asyncio.timeout(5):
        while not heard:
            await asyncio.sleep(0.002)
    ((waited_s, ahead_count, active),) = heard
    assert 0.01 <= waited_s < 5
    assert ahead_count == 1
    assert [(task.name, 0 <= task.active_s < 5) for task in active] == [("first", True)]
    await stage.let_go("first", "second", "third")
    assert stage.begun == ["first", "second", "third"]
    assert len(heard) == 1


async def test_r3_2_a_timer_that_rings_early_by_our_clock_is_set_again(
    lanes: Lanes, stage: Stage, clock: Seconds
) -> None:
    heard: Heard = []
    await stage.call(lanes.run("cron", stage.work("first")))
    waiting = lanes.run("cron", stage.work("last"), warn_after_s=0.01, on_wait=listener(heard))
    await stage.call(waiting)
    await asyncio.sleep(0.03)
    assert heard == []
    clock.advance(0.01)
    async with asyncio.timeout(5):
        while not heard:
            await asyncio.sleep(0.002)
    assert stage.begun == ["first"]


async def test_r3_2_who_starts_at_once_has_not_waited(lanes: Lanes, stage: Stage) -> None:
    heard: Heard = []
    waiting = lanes.run("cron", stage.work("a"), warn_after_s=0.0, on_wait=listener(heard))
    await stage.call(waiting)
    await stage.let_go("a")
    assert heard == []


async def test_r3_12_an_on_wait_that_raises_does_not_stop_the_lane(
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


async def test_r3_12_on_wait_has_the_context_of_whoever_enqueued(
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


async def test_r3_1_a_log_handler_that_changes_a_limit_does_not_change_the_order(
    lanes: Lanes, stage: Stage, clock: Seconds
) -> None:
    """It is called amid a drain, when the first has its place and has not been told so yet."""

    class Meddler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lanes.set_limit("cron", 3)

    await stage.call(lanes.run("cron", stage.work("first")))
    await stage.call(lanes.run("cron", stage.work("second")))
    await stage.call(lanes.run("cron", stage.work("third"), warn_after_s=100))
    clock.advance(3)
    log, meddler = logging.getLogger("headway.lanes.turns"), Meddler()
    log.addHandler(meddler)
    try:
        await stage.let_go("first")
    finally:
        log.removeHandler(meddler)
    await settle()
    assert stage.begun == ["first", "second", "third"]
