"""A fire time is decided once, never early, together with its run, on every store (I18)."""

import asyncio
import json
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.statements import GuardFailed
from headway.adapters.sql.tables import schedules
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.admin.schedules import (
    Fired,
    FireDropped,
    FireResult,
    FireSchedule,
    NotDue,
    PauseSchedule,
    ScheduleReset,
)
from headway.core.command.protocol import RevisionMismatch
from headway.core.command.run.submit import Accepted, Busy, LaneQueueFull
from headway.core.ids import CRON_LANE, SECOND_US, Instant
from headway.core.run.events import EventType
from headway.core.run.run import RunRecord
from headway.core.run.status import RunStatus
from headway.core.schedule import MissedPolicy, SavedSchedule, Schedule
from headway.ports.run_reader import RunFilter
from headway.testing import FakeClock, a_run_id, a_schedule
from tests.contract.backends import DatabaseTarget, open_link, read_all
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_run,
    read_events,
    read_record,
    register_instance,
    submit_run,
)
from tests.contract.test_guards import load_and_roll_back, write_stale

HOUR_S = 3_600.0


def fire(schedule: Schedule) -> FireSchedule:
    return FireSchedule(schedule, a_run_id())


async def start_schedule(store: SqlStore, clock: FakeClock, schedule: Schedule) -> Instant:
    """Create the schedule at a full hour, and return its fire time one hour later."""
    clock.advance(HOUR_S - clock() / SECOND_US % HOUR_S)
    assert await store.apply(fire(schedule)) == ScheduleReset(clock())
    return Instant(clock() + round(HOUR_S * SECOND_US))


async def list_runs(store: SqlStore) -> list[RunRecord]:
    return [record async for record in store.runs.list_runs(RunFilter(), limit=1_000)]


async def fire_until_done(store: SqlStore, schedule: Schedule) -> FireResult:
    """Fire until nothing is due, and return the answer before that."""
    answer = await store.apply(fire(schedule))
    assert isinstance(await store.apply(fire(schedule)), NotDue)
    return answer


@pytest.mark.proves("I18")
async def test_new_schedule_starts_from_now_without_catching_up(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule(missed=MissedPolicy.ONCE)
    next_fire_at = await start_schedule(store, clock, hourly)
    assert await store.apply(fire(hourly)) == NotDue(next_fire_at, clock())
    assert await list_runs(store) == []


@pytest.mark.proves("I18")
async def test_schedule_fires_at_its_instant_and_not_before(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    fire_at = await start_schedule(store, clock, hourly)
    clock.advance(HOUR_S - 0.000001)
    before = await read_all(store)
    assert await store.apply(fire(hourly)) == NotDue(fire_at, clock())
    assert await read_all(store) == before
    clock.advance(0.000001)
    answer = await fire_until_done(store, hourly)
    assert isinstance(answer, Fired)
    assert answer.fire_at == fire_at == clock()


@pytest.mark.proves("I18")
async def test_run_of_a_schedule_is_in_lane_cron(store: SqlStore, clock: FakeClock) -> None:
    hourly = a_schedule(key="bob", params={"page": 7}, timeout_s=9.0)
    await start_schedule(store, clock, hourly)
    clock.advance(HOUR_S)
    command = fire(hourly)
    answer = await store.apply(command)
    assert isinstance(answer, Fired)
    assert isinstance(answer.submit_result, Accepted)
    stored = await read_record(store, command.run_id)
    assert (stored.run.job, stored.run.key, stored.run.lane) == ("mirror", "bob", "cron")
    assert (stored.params, stored.run.timeout_us) == ('{"page":7}', 9_000_000)
    run = await claim_run(store, await register_instance(store), lane=CRON_LANE)
    assert run.run_id == command.run_id


@pytest.mark.proves("I18")
async def test_schedule_fires_once_if_two_engines_fire_it_at_the_same_time(
    store: SqlStore, another_store: SqlStore, clock: FakeClock
) -> None:
    for number in range(20):
        hourly = a_schedule(name=f"name-{number}", key=f"key-{number}", missed=MissedPolicy.ONCE)
        stores = (store, another_store)
        begins = await asyncio.gather(*(each_store.apply(fire(hourly)) for each_store in stores))
        assert sorted(type(answer).__name__ for answer in begins) == ["NotDue", "ScheduleReset"]
        clock.advance(HOUR_S)
        answers = await asyncio.gather(
            *(each_store.apply(fire(hourly)) for each_store in stores for _ in range(2))
        )
        assert [type(answer) for answer in answers].count(Fired) == 1
        assert [type(answer) for answer in answers].count(NotDue) == 3
        assert len(await list_runs(store)) == number + 1


@pytest.mark.proves("I18")
async def test_schedule_fires_once_if_one_batch_fires_it_twice(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    fire_at = await start_schedule(store, clock, hourly)
    clock.advance(HOUR_S)
    first, second = await apply_in_one_batch(store, fire(hourly), fire(hourly))
    assert isinstance(first, Fired)
    assert second == NotDue(Instant(fire_at + round(HOUR_S * SECOND_US)), clock())
    assert len(await list_runs(store)) == 1


@pytest.mark.proves("I18")
async def test_schedule_that_fires_while_its_key_is_busy_records_a_rejected_run(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule(key="ann")
    fire_at = await start_schedule(store, clock, hourly)
    active_id = await submit_run(store, "ann")
    clock.advance(HOUR_S)
    command = fire(hourly)
    assert await store.apply(command) == Fired(fire_at, Busy(active_id))
    rejected = (await read_record(store, command.run_id)).run
    assert (rejected.status, rejected.lane) == (RunStatus.REJECTED, CRON_LANE)
    assert isinstance(await store.apply(fire(hourly)), NotDue)


@pytest.mark.proves("I18")
async def test_schedule_that_fires_while_its_lane_is_full_records_a_rejected_run(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule(key="ann")
    await store.apply(SetLane(name=CRON_LANE, max_queued=0, max_concurrent=0))
    fire_at = await start_schedule(store, clock, hourly)
    clock.advance(HOUR_S)
    assert await store.apply(fire(hourly)) == Fired(fire_at, LaneQueueFull(CRON_LANE, 0))
    assert [record.run.status for record in await list_runs(store)] == [RunStatus.REJECTED]


@pytest.mark.proves("I18")
@pytest.mark.parametrize(
    "other", [{}, {"expression": "*/30 * * * *"}, {"time_zone": "Asia/Tokyo"}], ids=str
)
async def test_schedule_does_not_fire_again_after_the_clock_jumps_back(
    store: SqlStore, clock: FakeClock, other: dict[str, Any]
) -> None:
    """This holds even if the schedule changes and has new fire times in the repeated hours."""
    fire_at = await start_schedule(store, clock, a_schedule(missed=MissedPolicy.ONCE))
    clock.advance(HOUR_S)
    await fire_until_done(store, a_schedule(missed=MissedPolicy.ONCE))
    changed = a_schedule(missed=MissedPolicy.ONCE, **other)
    clock.advance(-3 * HOUR_S)
    for _ in range(24):
        clock.advance(HOUR_S / 8)
        assert isinstance(await store.apply(fire(changed)), NotDue | ScheduleReset)
    assert clock() == fire_at
    assert len(await list_runs(store)) == 1
    clock.advance(HOUR_S)
    assert isinstance(await store.apply(fire(changed)), Fired)


@pytest.mark.proves("I18")
@pytest.mark.parametrize("missed", MissedPolicy)
async def test_clock_jump_forward_is_handled_as_missed_fire_times(
    store: SqlStore, clock: FakeClock, missed: MissedPolicy
) -> None:
    hourly = a_schedule(missed=missed)
    await start_schedule(store, clock, hourly)
    clock.advance(1_000.5 * HOUR_S)
    fire_at = Instant(clock() - round(HOUR_S / 2 * SECOND_US))
    answer = await fire_until_done(store, hourly)
    if missed is MissedPolicy.SKIP:
        assert answer == FireDropped(fire_at)
        assert await list_runs(store) == []
    else:
        assert isinstance(answer, Fired)
        assert answer.fire_at == fire_at
        assert len(await list_runs(store)) == 1


@pytest.mark.proves("I18")
@pytest.mark.parametrize("other", [{"expression": "0 */2 * * *"}, {"time_zone": "Asia/Tokyo"}])
async def test_changed_schedule_starts_from_now(
    store: SqlStore, clock: FakeClock, other: dict[str, Any]
) -> None:
    await start_schedule(store, clock, a_schedule(missed=MissedPolicy.ONCE))
    clock.advance(5.5 * HOUR_S)
    changed = a_schedule(missed=MissedPolicy.ONCE, **other)
    assert await store.apply(fire(changed)) == ScheduleReset(clock())
    answer = await store.apply(fire(changed))
    assert answer == NotDue(changed.next_fire_at(after=clock()), clock())
    assert await list_runs(store) == []


@pytest.mark.proves("I18")
async def test_names_that_differ_in_case_are_two_schedules(
    store: SqlStore, clock: FakeClock
) -> None:
    await start_schedule(store, clock, a_schedule(name="nightly"))
    assert isinstance(await store.apply(fire(a_schedule(name="Nightly"))), ScheduleReset)


@pytest.mark.proves("I12")
async def test_decisions_about_a_schedule_are_in_the_stream(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule(name='the "first"')
    fire_at = await start_schedule(store, clock, hourly)
    clock.advance(HOUR_S)
    command = fire(hourly)
    await store.apply(command)
    clock.advance(HOUR_S + 61)
    await store.apply(fire(hourly))
    rows = [(event.type, json.loads(event.payload)) for event in await read_events(store)]
    name = 'the "first"'
    second_at = fire_at + round(HOUR_S * SECOND_US)
    assert rows == [
        (
            EventType.SCHEDULE_CHANGED,
            {"name": name, "expression": "0 * * * *", "time_zone": "UTC"},
        ),
        (
            EventType.SCHEDULE_FIRED,
            {"name": name, "fire_at": fire_at, "run_id": command.run_id},
        ),
        (EventType.STATE_CHANGED, {"from": None, "to": "queued"}),
        (EventType.SCHEDULE_DROPPED, {"name": name, "fire_at": second_at}),
    ]


@pytest.mark.proves("R2.2")
async def test_schedule_changed_by_another_writer_is_not_overwritten(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock
) -> None:
    hourly = a_schedule()
    await start_schedule(store, clock, hourly)
    clock.advance(HOUR_S)
    async with open_link(store, target) as link:
        stale_fire = fire(hourly)
        batch = await load_and_roll_back(link, stale_fire, clock)
        await fire_until_done(store, hourly)
        before = await read_all(store)
        refused = await write_stale(link, stale_fire, batch)
        if isinstance(
            refused, GuardFailed
        ):  # Otherwise the duplicate event number was found first.
            assert refused.args[0].table is schedules
        assert await read_all(store) == before


@pytest.mark.proves("I18")
@pytest.mark.parametrize("missed", MissedPolicy)
async def test_paused_schedule_starts_nothing_and_does_not_catch_up(
    store: SqlStore, clock: FakeClock, missed: MissedPolicy
) -> None:
    hourly = a_schedule(missed=missed)
    fire_at = await start_schedule(store, clock, hourly)
    paused = await store.apply(PauseSchedule(hourly, is_paused=True))
    assert isinstance(paused, SavedSchedule)
    assert (paused.is_paused, await store.board.schedules()) == (1, [paused])
    clock.advance(5 * HOUR_S)
    # The answer contains the next fire time, because the schedule may be resumed by then.
    sixth_at = Instant(fire_at + round(5 * HOUR_S * SECOND_US))
    assert await store.apply(fire(hourly)) == NotDue(sixth_at, clock())
    await store.apply(PauseSchedule(hourly, is_paused=False))
    assert await store.apply(fire(hourly)) == NotDue(sixth_at, clock())
    clock.advance(HOUR_S)
    answer = await fire_until_done(store, hourly)
    assert isinstance(answer, Fired)
    assert (answer.fire_at, len(await list_runs(store))) == (sixth_at, 1)


@pytest.mark.proves("I18")
async def test_schedule_can_be_paused_before_its_first_use_and_stays_paused(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    before = await store.apply(PauseSchedule(hourly, is_paused=True))
    assert await store.apply(PauseSchedule(hourly, is_paused=True)) == before
    other = a_schedule(expression="*/5 * * * *")
    assert await store.apply(fire(other)) == ScheduleReset(clock())
    clock.advance(HOUR_S)
    assert isinstance(await store.apply(fire(other)), NotDue)
    assert await list_runs(store) == []
    await store.apply(PauseSchedule(other, is_paused=False))
    results = [event.type for event in await read_events(store)]
    assert results == [
        EventType.SCHEDULE_PAUSED, EventType.SCHEDULE_CHANGED, EventType.SCHEDULE_RESUMED,
    ]  # fmt: skip


async def test_schedule_is_paused_only_at_the_revision_that_was_read(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    unseen = await store.apply(PauseSchedule(hourly, is_paused=True, expected_revision=1))
    assert unseen == RevisionMismatch(0)
    await start_schedule(store, clock, hourly)
    (observed,) = await store.board.schedules()
    clock.advance(HOUR_S)
    await fire_until_done(store, hourly)
    stale = PauseSchedule(hourly, is_paused=True, expected_revision=observed.revision)
    before = await read_all(store)
    assert await store.apply(stale) == RevisionMismatch(observed.revision + 1)
    assert await read_all(store) == before
    current = PauseSchedule(hourly, is_paused=True, expected_revision=observed.revision + 1)
    assert await store.apply(current) == (await store.board.schedules())[0]


@pytest.mark.proves("I18")
async def test_schedule_does_not_fire_again_if_it_is_paused_after_a_clock_jump_back(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    await start_schedule(store, clock, hourly)
    clock.advance(HOUR_S)
    assert isinstance(await fire_until_done(store, hourly), Fired)
    clock.advance(-HOUR_S / 2)
    for is_paused in (True, False):
        await store.apply(PauseSchedule(hourly, is_paused=is_paused))
    clock.advance(HOUR_S / 2)
    assert isinstance(await store.apply(fire(hourly)), NotDue)
    assert len(await list_runs(store)) == 1
