"""Schedules as a process keeps them: registered, fired, missed, waited for, and left."""

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
from headway.services.upkeep import scheduler as service
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
    """Ten past some hour."""
    clock = FakeClock()
    clock.advance(3_600 + 600 - clock() / SECOND_US % 3_600)
    return clock


@pytest.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[SqlStore]:
    opened = await open_store([url], now=clock)
    yield opened
    await opened.close()


async def keys_fired(store: SqlStore) -> list[str]:
    return [record.run.key for record in await records(store)]


@pytest.mark.proves("I18")
async def test_each_look_fires_what_is_due_and_says_when_to_look_again(
    store: SqlStore, clock: FakeClock
) -> None:
    assert await fire_due(store, IDS, HOURLY) == POLL_S_MIN  # Begun.
    assert await fire_due(store, IDS, HOURLY) == 1_200
    clock.advance(20 * 60 - 7)
    assert await fire_due(store, IDS, HOURLY) == 7.0
    assert await keys_fired(store) == []
    clock.advance(7)
    assert await fire_due(store, IDS, HOURLY) == POLL_S_MIN
    assert await fire_due(store, IDS, HOURLY) == 1_800
    assert await keys_fired(store) == ["b"]


@pytest.mark.proves("I18")
async def test_after_a_pause_missed_slots_are_decided_and_the_next_ones_fire(
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
    """A store that is out for its first looks."""

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


async def kept(
    store: Any, schedules: list[Schedule], *, until: asyncio.Event, clock: Clock | None = None
) -> None:
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(run_schedules(store, IDS, clock or SystemClock(), schedules))
        await until.wait()
        keeping.cancel()


@pytest.mark.proves("I20")
async def test_an_outage_is_waited_out(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "RETRY_S", 0.0)
    outage = Outage(store, *[DatabaseUnavailable({"db": "is gone"})] * 3)
    with caplog.at_level(logging.WARNING):
        await kept(outage, HOURLY[:1], until=outage.is_over)
    reason = "'no database address can be used: db: is gone'"
    assert caplog.messages == [f"schedules_not_looked_at reason={reason}"] * 3


@pytest.mark.proves("I20")
async def test_a_store_that_is_closed_ends_it(store: SqlStore) -> None:
    with pytest.raises(StoreClosed):
        await run_schedules(Outage(store, StoreClosed()), IDS, SystemClock(), HOURLY[:1])


@pytest.mark.proves("I18")
async def test_it_looks_again_in_time_and_does_not_spin(store: SqlStore, clock: FakeClock) -> None:
    """The clock is moved by what it waits: a day takes a few looks for each of its slots."""
    waits: list[float] = []
    day_has_passed = asyncio.Event()

    class Passing(SystemClock):
        async def sleep(self, seconds: float) -> None:
            waits.append(seconds)
            clock.advance(seconds)
            if sum(waits) >= 86_400:
                day_has_passed.set()
                await asyncio.Event().wait()

    await kept(store, HOURLY[:1], until=day_has_passed, clock=Passing())
    ended = [record.run.status for record in await records(store)]
    assert ended == [RunStatus.QUEUED, *[RunStatus.REJECTED] * 23]
    assert len(waits) < 24 * 3
    fired_at = [record.run.queued_at for record in await records(store)]
    assert {at % (3_600 * SECOND_US) for at in fired_at} == {0}


@pytest.mark.proves("I18")
async def test_a_clock_that_jumps_is_noticed_though_it_was_said_to_be_long(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "POLL_S_MAX", 0.01)
    fired = asyncio.Event()
    store.listen(lambda events: fired.set() if events[0].type == "schedule_fired" else None)

    class Jumping(SystemClock):
        async def sleep(self, seconds: float) -> None:
            if seconds > POLL_S_MIN:
                clock.advance(seconds)
            await asyncio.sleep(seconds)

    await kept(store, HOURLY[:1], until=fired, clock=Jumping())


# The library face.


def scheduled(url: str, **wanted: Any) -> tuple[Headway, asyncio.Queue[str]]:
    hw = Headway(url)
    worked: asyncio.Queue[str] = asyncio.Queue()

    @hw.job(timeout_s=60)
    async def mirror(ctx: RunContext, page: int = 0) -> int:
        worked.put_nowait(ctx.key)
        return page

    hw.schedule(**{"expression": "* * * * *", "job": "mirror", **wanted})
    return hw, worked


@pytest.mark.proves("I18")
async def test_what_was_missed_while_no_process_ran_is_made_up_for_once(url: str) -> None:
    """The rows are those of a process that ran an hour ago, by the clock of the database."""
    hw, worked = scheduled(url, name="pages", params={"page": 3}, missed="once")
    clock = FakeClock()
    clock.advance((SystemClock().now() - clock()) / SECOND_US - 3_600)
    earlier = await open_store([url], now=clock)
    await fire_due(earlier, IDS, [a_schedule("* * * * *", name="pages")])
    await earlier.close()
    async with hw:
        async with asyncio.timeout(20):
            assert await worked.get() == "pages"
        (record, *_) = await records_of(hw)
        assert (record.run.lane, record.run.timeout_us) == ("cron", 60_000_000)
        assert record.params == '{"page":3}'


async def test_a_schedule_that_breaks_ends_the_body_with_its_error(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> float:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(service, "fire_due", broken)
    hw, _ = scheduled(url)
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        async with hw, asyncio.timeout(20):
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    "mine", [KeyError("mine"), ExceptionGroup("mine", [KeyError()]), asyncio.CancelledError("mine")]
)
async def test_an_error_of_the_body_is_raised_as_it_is(url: str, mine: BaseException) -> None:
    hw, _ = scheduled(url)
    with pytest.raises(type(mine)) as raised:
        async with hw:
            raise mine
    assert raised.value is mine
    async with hw:  # And it can be opened again.
        pass


@pytest.mark.proves("I15")
def test_a_schedule_is_checked_when_it_is_registered(url: str) -> None:
    hw, _ = scheduled(url)
    faults: list[tuple[str, dict[str, Any]]] = [
        ("job", {"job": "miror"}),
        ("name", {}),
        ("params", {"name": "a", "params": [1]}),
        ("params.page", {"name": "a", "params": {"page": {1}}}),
        ("expression", {"name": "a", "expression": "0 0 30 2 *"}),
        ("time_zone", {"name": "a", "time_zone": "Mars/Olympus"}),
        ("missed", {"name": "a", "missed": "twice"}),
    ]
    for place, wanted in faults:
        with pytest.raises(InvalidInput) as refused:
            hw.schedule(**{"expression": "* * * * *", "job": "mirror", **wanted})
        assert refused.value.field == place


@pytest.mark.proves("I19")
def test_there_is_a_limit_to_schedules(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.services.upkeep.scheduler.SCHEDULE_COUNT_MAX", 1)
    hw, _ = scheduled(url)
    with pytest.raises(InvalidInput, match="there are 1 schedules already"):
        hw.schedule("* * * * *", job="mirror", name="another")


async def test_a_schedule_is_registered_before_the_start(url: str) -> None:
    hw, _ = scheduled(url)
    async with hw:
        with pytest.raises(RuntimeError, match="before `async with`"):
            hw.schedule("* * * * *", job="mirror", name="late")
