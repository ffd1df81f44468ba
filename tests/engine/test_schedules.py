"""Schedules in a process: registration, firing, missed times, outages and shutdown."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.bootstrap import SystemClock, SystemIds
from headway.core.command.protocol import Command
from headway.core.errors import DatabaseUnavailable, InvalidInput, StoreClosed
from headway.core.ids import SECOND_US
from headway.core.run.status import RunStatus
from headway.core.schedule import MissedPolicy, Schedule
from headway.ports.clock import Clock
from headway.services.upkeep import scheduler
from headway.services.upkeep.scheduler import POLL_S_MIN, fire_due, run_schedules
from headway.testing import FakeClock, a_schedule
from tests.engine.scenes import records, records_of

pytestmark = pytest.mark.backend("sqlite")

IDS = SystemIds()
HOURLY = [
    a_schedule("0 * * * *", name="hourly", key="a"),
    a_schedule("30 * * * *", name="half past", key="b", missed=MissedPolicy.ONCE),
]


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that shows ten minutes past an hour."""
    clock = FakeClock()
    clock.advance(3_600 + 600 - clock() / SECOND_US % 3_600)
    return clock


@pytest.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[SqlStore]:
    store = await open_store([url], now=clock)
    yield store
    await store.close()


async def keys_fired(store: SqlStore) -> list[str]:
    return [record.run.key for record in await records(store)]


@pytest.mark.proves("I18")
async def test_each_poll_fires_due_schedules_and_returns_the_next_delay(
    store: SqlStore, clock: FakeClock
) -> None:
    assert await fire_due(store, IDS, HOURLY) == POLL_S_MIN  # The schedules are created.
    assert await fire_due(store, IDS, HOURLY) == 1_200
    clock.advance(20 * 60 - 7)
    assert await fire_due(store, IDS, HOURLY) == 7.0
    assert await keys_fired(store) == []
    clock.advance(7)
    assert await fire_due(store, IDS, HOURLY) == POLL_S_MIN
    assert await fire_due(store, IDS, HOURLY) == 1_800
    assert await keys_fired(store) == ["b"]


@pytest.mark.proves("I18")
async def test_missed_fire_times_are_handled_after_a_pause_and_later_ones_fire(
    store: SqlStore, clock: FakeClock
) -> None:
    await fire_due(store, IDS, HOURLY)
    clock.advance(10 * 3_600)
    await fire_due(store, IDS, HOURLY)
    assert await keys_fired(store) == ["b"]
    clock.advance(50 * 60)
    await fire_due(store, IDS, HOURLY)
    # The run of `b` has not ended, so its key is busy.
    assert await keys_fired(store) == ["b", "a", "b"]
    assert (await records(store))[-1].run.status is RunStatus.REJECTED


class Outage:
    """A store whose first commands fail."""

    def __init__(self, store: SqlStore, *errors: Exception) -> None:
        self._store = store
        self._errors = list(errors)
        self.is_over = asyncio.Event()

    async def apply(self, command: Command[Any]) -> Any:
        if self._errors:
            raise self._errors.pop(0)
        answer = await self._store.apply(command)
        self.is_over.set()
        return answer

    listen = SqlStore.listen
    keep_lease = SqlStore.keep_lease
    renew_lease = SqlStore.renew_lease
    piggyback = SqlStore.piggyback


async def run_until(
    store: Any, schedules: list[Schedule], *, event: asyncio.Event, clock: Clock | None = None
) -> None:
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(run_schedules(store, IDS, clock or SystemClock(), schedules))
        await event.wait()
        task.cancel()


@pytest.mark.proves("I20")
async def test_an_outage_is_logged_and_retried(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler, "RETRY_S", 0.0)
    outage = Outage(store, *[DatabaseUnavailable({"db": "is gone"})] * 3)
    with caplog.at_level(logging.WARNING):
        await run_until(outage, HOURLY[:1], event=outage.is_over)
    reason = "'no database address can be used: db: is gone'"
    assert caplog.messages == [f"schedule_poll_failed reason={reason}"] * 3


@pytest.mark.proves("I20")
async def test_a_closed_store_ends_the_scheduler(store: SqlStore) -> None:
    with pytest.raises(StoreClosed):
        await run_schedules(Outage(store, StoreClosed()), IDS, SystemClock(), HOURLY[:1])


@pytest.mark.proves("I18")
async def test_the_scheduler_polls_in_time_and_does_not_spin(
    store: SqlStore, clock: FakeClock
) -> None:
    """Each wait advances the clock; a day takes a few polls per scheduled time."""
    waits: list[float] = []
    day_has_passed = asyncio.Event()

    class AdvancingClock(SystemClock):
        async def sleep(self, seconds: float) -> None:
            waits.append(seconds)
            clock.advance(seconds)
            if sum(waits) >= 86_400:
                day_has_passed.set()
                await asyncio.Event().wait()

    await run_until(store, HOURLY[:1], event=day_has_passed, clock=AdvancingClock())
    ended = [record.run.status for record in await records(store)]
    assert ended == [RunStatus.QUEUED, *[RunStatus.REJECTED] * 23]
    assert len(waits) < 24 * 3
    fired_at = [record.run.queued_at for record in await records(store)]
    assert {at % (3_600 * SECOND_US) for at in fired_at} == {0}


@pytest.mark.proves("I18")
async def test_a_clock_jump_during_a_long_wait_is_noticed(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "POLL_S_MAX", 0.01)
    fired = asyncio.Event()
    store.listen(lambda events: fired.set() if events[0].type == "schedule_fired" else None)

    class JumpingClock(SystemClock):
        async def sleep(self, seconds: float) -> None:
            if seconds > POLL_S_MIN:
                clock.advance(seconds)
            await asyncio.sleep(seconds)

    await run_until(store, HOURLY[:1], event=fired, clock=JumpingClock())


# The library API.


def headway_with_schedule(url: str, **options: Any) -> tuple[Headway, asyncio.Queue[str]]:
    hw = Headway(url)
    executed_keys: asyncio.Queue[str] = asyncio.Queue()

    @hw.job(timeout_s=60)
    async def mirror(ctx: RunContext, page: int = 0) -> int:
        executed_keys.put_nowait(ctx.key)
        return page

    hw.schedule(**{"expression": "* * * * *", "job": "mirror", **options})
    return hw, executed_keys


@pytest.mark.proves("I18")
async def test_fire_times_missed_while_no_process_ran_fire_once(url: str) -> None:
    """The stored rows are those of a process that ran an hour ago."""
    hw, executed_keys = headway_with_schedule(url, name="pages", params={"page": 3}, missed="once")
    clock = FakeClock()
    clock.advance((SystemClock().now() - clock()) / SECOND_US - 3_600)
    earlier = await open_store([url], now=clock)
    await fire_due(earlier, IDS, [a_schedule("* * * * *", name="pages")])
    await earlier.close()
    async with hw:
        async with asyncio.timeout(20):
            assert await executed_keys.get() == "pages"
        (record, *_) = await records_of(hw)
        assert (record.run.lane, record.run.timeout_us) == ("cron", 60_000_000)
        assert record.params == '{"page":3}'


async def test_an_error_of_the_scheduler_cancels_the_body_and_is_raised(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def raise_error(*_: object) -> float:
        raise ZeroDivisionError("internal error")

    monkeypatch.setattr(scheduler, "fire_due", raise_error)
    hw, _ = headway_with_schedule(url)
    with pytest.raises(ZeroDivisionError, match="internal error"):
        async with hw, asyncio.timeout(20):
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    "error",
    [KeyError("mine"), ExceptionGroup("mine", [KeyError()]), asyncio.CancelledError("mine")],
)
async def test_an_error_of_the_body_is_raised_unchanged(url: str, error: BaseException) -> None:
    hw, _ = headway_with_schedule(url)
    with pytest.raises(type(error)) as raised:
        async with hw:
            raise error
    assert raised.value is error
    async with hw:  # It can be opened again.
        pass


@pytest.mark.proves("I15")
def test_a_schedule_is_checked_when_it_is_registered(url: str) -> None:
    hw, _ = headway_with_schedule(url)
    invalid_options: list[tuple[str, dict[str, Any]]] = [
        ("job", {"job": "miror"}),
        ("name", {}),
        ("params", {"name": "a", "params": [1]}),
        ("params.page", {"name": "a", "params": {"page": {1}}}),
        ("expression", {"name": "a", "expression": "0 0 30 2 *"}),
        ("time_zone", {"name": "a", "time_zone": "Mars/Olympus"}),
        ("missed", {"name": "a", "missed": "twice"}),
    ]
    for field, options in invalid_options:
        with pytest.raises(InvalidInput) as refused:
            hw.schedule(**{"expression": "* * * * *", "job": "mirror", **options})
        assert refused.value.field == field


@pytest.mark.proves("I19")
def test_the_number_of_schedules_is_limited(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.services.upkeep.scheduler.SCHEDULE_COUNT_MAX", 1)
    hw, _ = headway_with_schedule(url)
    with pytest.raises(InvalidInput, match="1 schedules are already registered"):
        hw.schedule("* * * * *", job="mirror", name="another")


async def test_a_schedule_must_be_registered_before_the_start(url: str) -> None:
    hw, _ = headway_with_schedule(url)
    async with hw:
        with pytest.raises(RuntimeError, match="before `async with`"):
            hw.schedule("* * * * *", job="mirror", name="late")


@pytest.mark.proves("I6")
async def test_a_run_of_a_schedule_can_be_started_by_hand(url: str) -> None:
    hw = Headway(url)

    @hw.job(timeout_s=7)
    async def tidy(ctx: RunContext, depth: int) -> int:
        return depth

    hw.schedule("0 0 1 1 *", job=tidy, name="nightly", params={"depth": 3})
    async with hw:
        run = await hw.start_schedule("nightly", idempotency_key="once", by="ann")
        assert (await hw.start_schedule("nightly", idempotency_key="once")).id == run.id
        assert await run.result() == 3
        state = (await run.record()).run
        assert (state.key, state.lane, state.timeout_us) == ("nightly", "cron", 7 * SECOND_US)
        with pytest.raises(InvalidInput, match="schedule 'nightli' is not registered"):
            await hw.start_schedule("nightli")
