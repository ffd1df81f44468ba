"""I18 on every store: a slot is decided once, never early, and with the run that comes of it."""

import asyncio
import json
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.statements import GuardFailed
from headway.adapters.sql.tables import schedules
from headway.core.command.admin.fire_schedule import (
    Fired,
    FireDropped,
    FireResult,
    FireSchedule,
    NotDue,
    ScheduleReset,
)
from headway.core.command.admin.pause_schedule import PauseSchedule
from headway.core.command.admin.set_lane import SetLane
from headway.core.command.protocol import RevisionMismatch
from headway.core.command.run.submit import Accepted, Busy, LaneQueueFull
from headway.core.ids import CRON_LANE, SECOND_US, Instant
from headway.core.run.events import EventType
from headway.core.run.run import RunRecord
from headway.core.run.status import RunStatus
from headway.core.schedule import MissedPolicy, SavedSchedule, Schedule
from headway.ports.run_reader import RunFilter
from headway.testing import FakeClock, a_run_id, a_schedule
from tests.contract.backends import Place, linked, read_all
from tests.contract.scenes import claimed_one, events, instance, record, submitted, together
from tests.contract.test_guards import load_and_let_go, write_stale

HOUR_S = 3_600.0


def fire(schedule: Schedule) -> FireSchedule:
    return FireSchedule(schedule, a_run_id())


async def begun(store: SqlStore, clock: FakeClock, schedule: Schedule) -> Instant:
    """Begin the schedule at a whole hour, of which the next slot is one hour away; that slot."""
    clock.advance(HOUR_S - clock() / SECOND_US % HOUR_S)
    assert await store.apply(fire(schedule)) == ScheduleReset(clock())
    return Instant(clock() + round(HOUR_S * SECOND_US))


async def runs(store: SqlStore) -> list[RunRecord]:
    return [one async for one in store.runs.list_runs(RunFilter(), limit=1_000)]


async def fired(store: SqlStore, schedule: Schedule) -> FireResult:
    """Fire until there is nothing left to decide; the one answer before that."""
    answer = await store.apply(fire(schedule))
    assert isinstance(await store.apply(fire(schedule)), NotDue)
    return answer


@pytest.mark.proves("I18")
async def test_a_new_schedule_starts_from_now_and_makes_up_for_nothing(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule(missed=MissedPolicy.ONCE)
    next_fire_at = await begun(store, clock, hourly)
    assert await store.apply(fire(hourly)) == NotDue(next_fire_at, clock())
    assert await runs(store) == []


@pytest.mark.proves("I18")
async def test_a_slot_fires_at_its_instant_and_not_before(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    fire_at = await begun(store, clock, hourly)
    clock.advance(HOUR_S - 0.000001)
    before = await read_all(store)
    assert await store.apply(fire(hourly)) == NotDue(fire_at, clock())
    assert await read_all(store) == before
    clock.advance(0.000001)
    answer = await fired(store, hourly)
    assert isinstance(answer, Fired)
    assert answer.fire_at == fire_at == clock()


@pytest.mark.proves("I18")
async def test_the_run_is_the_schedules_in_lane_cron(store: SqlStore, clock: FakeClock) -> None:
    hourly = a_schedule(key="bob", params={"page": 7}, timeout_s=9.0)
    await begun(store, clock, hourly)
    clock.advance(HOUR_S)
    command = fire(hourly)
    answer = await store.apply(command)
    assert isinstance(answer, Fired)
    assert isinstance(answer.submit_result, Accepted)
    found = await record(store, command.run_id)
    assert (found.run.job, found.run.key, found.run.lane) == ("mirror", "bob", "cron")
    assert (found.params, found.run.timeout_us) == ('{"page":7}', 9_000_000)
    one = await claimed_one(store, await instance(store), lane=CRON_LANE)
    assert one.run_id == command.run_id


@pytest.mark.proves("I18")
async def test_of_two_who_fire_a_slot_at_once_one_does(
    store: SqlStore, another_store: SqlStore, clock: FakeClock
) -> None:
    for number in range(20):
        hourly = a_schedule(name=f"name-{number}", key=f"key-{number}", missed=MissedPolicy.ONCE)
        both = (store, another_store)
        begins = await asyncio.gather(*(one.apply(fire(hourly)) for one in both))
        assert sorted(type(answer).__name__ for answer in begins) == ["ScheduleReset", "NotDue"]
        clock.advance(HOUR_S)
        answers = await asyncio.gather(*(one.apply(fire(hourly)) for one in both for _ in range(2)))
        assert [type(answer) for answer in answers].count(Fired) == 1
        assert [type(answer) for answer in answers].count(NotDue) == 3
        assert len(await runs(store)) == number + 1


@pytest.mark.proves("I18")
async def test_in_one_batch_a_slot_is_fired_once(store: SqlStore, clock: FakeClock) -> None:
    hourly = a_schedule()
    fire_at = await begun(store, clock, hourly)
    clock.advance(HOUR_S)
    first, second = await together(store, fire(hourly), fire(hourly))
    assert isinstance(first, Fired)
    assert second == NotDue(Instant(fire_at + round(HOUR_S * SECOND_US)), clock())
    assert len(await runs(store)) == 1


@pytest.mark.proves("I18")
async def test_a_busy_key_is_on_record_as_a_rejected_run(store: SqlStore, clock: FakeClock) -> None:
    hourly = a_schedule(key="ann")
    fire_at = await begun(store, clock, hourly)
    active_id = await submitted(store, "ann")
    clock.advance(HOUR_S)
    command = fire(hourly)
    assert await store.apply(command) == Fired(fire_at, Busy(active_id))
    rejected = (await record(store, command.run_id)).run
    assert (rejected.status, rejected.lane) == (RunStatus.REJECTED, CRON_LANE)
    assert isinstance(await store.apply(fire(hourly)), NotDue)


@pytest.mark.proves("I18")
async def test_a_full_lane_is_on_record_as_a_rejected_run(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule(key="ann")
    await store.apply(SetLane(name=CRON_LANE, max_queued=0, max_concurrent=0))
    fire_at = await begun(store, clock, hourly)
    clock.advance(HOUR_S)
    assert await store.apply(fire(hourly)) == Fired(fire_at, LaneQueueFull(CRON_LANE, 0))
    assert [one.run.status for one in await runs(store)] == [RunStatus.REJECTED]


@pytest.mark.proves("I18")
@pytest.mark.parametrize(
    "other", [{}, {"expression": "*/30 * * * *"}, {"time_zone": "Asia/Tokyo"}], ids=str
)
async def test_a_clock_that_jumps_back_fires_nothing_again(
    store: SqlStore, clock: FakeClock, other: dict[str, Any]
) -> None:
    """Not even when the schedule is changed meanwhile, and has slots of its own there."""
    fire_at = await begun(store, clock, a_schedule(missed=MissedPolicy.ONCE))
    clock.advance(HOUR_S)
    await fired(store, a_schedule(missed=MissedPolicy.ONCE))
    changed = a_schedule(missed=MissedPolicy.ONCE, **other)
    clock.advance(-3 * HOUR_S)
    for _ in range(24):
        clock.advance(HOUR_S / 8)
        assert isinstance(await store.apply(fire(changed)), NotDue | ScheduleReset)
    assert clock() == fire_at
    assert len(await runs(store)) == 1
    clock.advance(HOUR_S)
    assert isinstance(await store.apply(fire(changed)), Fired)


@pytest.mark.proves("I18")
@pytest.mark.parametrize("missed", MissedPolicy)
async def test_a_jump_forward_is_slots_missed(
    store: SqlStore, clock: FakeClock, missed: MissedPolicy
) -> None:
    hourly = a_schedule(missed=missed)
    await begun(store, clock, hourly)
    clock.advance(1_000.5 * HOUR_S)
    fire_at = Instant(clock() - round(HOUR_S / 2 * SECOND_US))
    answer = await fired(store, hourly)
    if missed is MissedPolicy.SKIP:
        assert answer == FireDropped(fire_at)
        assert await runs(store) == []
    else:
        assert isinstance(answer, Fired)
        assert answer.fire_at == fire_at
        assert len(await runs(store)) == 1


@pytest.mark.proves("I18")
@pytest.mark.parametrize("other", [{"expression": "0 */2 * * *"}, {"time_zone": "Asia/Tokyo"}])
async def test_a_changed_schedule_starts_from_now(
    store: SqlStore, clock: FakeClock, other: dict[str, Any]
) -> None:
    await begun(store, clock, a_schedule(missed=MissedPolicy.ONCE))
    clock.advance(5.5 * HOUR_S)
    changed = a_schedule(missed=MissedPolicy.ONCE, **other)
    assert await store.apply(fire(changed)) == ScheduleReset(clock())
    answer = await store.apply(fire(changed))
    assert answer == NotDue(changed.next_fire_at(after=clock()), clock())
    assert await runs(store) == []


@pytest.mark.proves("I18")
async def test_names_that_differ_in_case_are_two_schedules(
    store: SqlStore, clock: FakeClock
) -> None:
    await begun(store, clock, a_schedule(name="nightly"))
    assert isinstance(await store.apply(fire(a_schedule(name="Nightly"))), ScheduleReset)


@pytest.mark.proves("I12")
async def test_what_is_decided_of_a_schedule_is_in_the_stream(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule(name='the "first"')
    fire_at = await begun(store, clock, hourly)
    clock.advance(HOUR_S)
    command = fire(hourly)
    await store.apply(command)
    clock.advance(HOUR_S + 61)
    await store.apply(fire(hourly))
    found = [(event.type, json.loads(event.payload)) for event in await events(store)]
    name = 'the "first"'
    second_at = fire_at + round(HOUR_S * SECOND_US)
    assert found == [
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
async def test_a_schedule_that_was_decided_meanwhile_is_not_written(
    store: SqlStore, place: Place, clock: FakeClock
) -> None:
    hourly = a_schedule()
    await begun(store, clock, hourly)
    clock.advance(HOUR_S)
    async with linked(store, place) as link:
        late = fire(hourly)
        world = await load_and_let_go(link, late, clock)
        await fired(store, hourly)
        before = await read_all(store)
        refused = await write_stale(link, late, world)
        if isinstance(refused, GuardFailed):  # Else the event's number was met before.
            assert refused.args[0].table is schedules
        assert await read_all(store) == before


@pytest.mark.proves("I18")
@pytest.mark.parametrize("missed", MissedPolicy)
async def test_a_paused_schedule_starts_nothing_and_makes_up_for_nothing(
    store: SqlStore, clock: FakeClock, missed: MissedPolicy
) -> None:
    hourly = a_schedule(missed=missed)
    fire_at = await begun(store, clock, hourly)
    paused = await store.apply(PauseSchedule(hourly, is_paused=True))
    assert isinstance(paused, SavedSchedule)
    assert (paused.is_paused, await store.board.schedules()) == (1, [paused])
    clock.advance(5 * HOUR_S)
    # Whoever looks is told of the next slot: by then it may have been resumed.
    sixth_at = Instant(fire_at + round(5 * HOUR_S * SECOND_US))
    assert await store.apply(fire(hourly)) == NotDue(sixth_at, clock())
    await store.apply(PauseSchedule(hourly, is_paused=False))
    assert await store.apply(fire(hourly)) == NotDue(sixth_at, clock())
    clock.advance(HOUR_S)
    answer = await fired(store, hourly)
    assert isinstance(answer, Fired)
    assert (answer.fire_at, len(await runs(store))) == (sixth_at, 1)


@pytest.mark.proves("I18")
async def test_what_is_paused_stays_so_when_its_expression_changes_or_nobody_has_seen_it(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    before = await store.apply(PauseSchedule(hourly, is_paused=True))
    assert await store.apply(PauseSchedule(hourly, is_paused=True)) == before
    other = a_schedule(expression="*/5 * * * *")
    assert await store.apply(fire(other)) == ScheduleReset(clock())
    clock.advance(HOUR_S)
    assert isinstance(await store.apply(fire(other)), NotDue)
    assert await runs(store) == []
    await store.apply(PauseSchedule(other, is_paused=False))
    told = [event.type for event in await events(store)]
    assert told == [
        EventType.SCHEDULE_PAUSED, EventType.SCHEDULE_CHANGED, EventType.SCHEDULE_RESUMED,
    ]  # fmt: skip


async def test_a_schedule_is_paused_only_at_the_revision_that_was_seen(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    unseen = await store.apply(PauseSchedule(hourly, is_paused=True, expected_revision=1))
    assert unseen == RevisionMismatch(0)
    await begun(store, clock, hourly)
    (seen,) = await store.board.schedules()
    clock.advance(HOUR_S)
    await fired(store, hourly)
    stale = PauseSchedule(hourly, is_paused=True, expected_revision=seen.revision)
    before = await read_all(store)
    assert await store.apply(stale) == RevisionMismatch(seen.revision + 1)
    assert await read_all(store) == before
    current = PauseSchedule(hourly, is_paused=True, expected_revision=seen.revision + 1)
    assert await store.apply(current) == (await store.board.schedules())[0]


@pytest.mark.proves("I18")
async def test_a_clock_that_went_back_and_a_pause_fire_no_slot_again(
    store: SqlStore, clock: FakeClock
) -> None:
    hourly = a_schedule()
    await begun(store, clock, hourly)
    clock.advance(HOUR_S)
    assert isinstance(await fired(store, hourly), Fired)
    clock.advance(-HOUR_S / 2)
    for is_paused in (True, False):
        await store.apply(PauseSchedule(hourly, is_paused=is_paused))
    clock.advance(HOUR_S / 2)
    assert isinstance(await store.apply(fire(hourly)), NotDue)
    assert len(await runs(store)) == 1
