"""The doctor: silent on whatever the store itself has written, and not on anything else."""

import pytest
import sqlalchemy as sa

from headway.adapters.sql.read.read_doctor import SqlDoctorReader
from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.tables import events, inbox, instances, lanes, runs, stream
from headway.core.command.admin.instance import DeclareDead
from headway.core.command.admin.prune import PruneEvents
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.settle import Complete
from headway.core.command.run.wait import Park
from headway.core.doctor.finding import Severity
from headway.core.ids import add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.core.run.run import QueueRank
from headway.core.run.status import RunStatus
from headway.services.upkeep import examination as doctor
from headway.services.upkeep.examination import TOLERANCE_S, DoctorProgress
from headway.testing import FakeClock, claim_of
from tests.contract.backends import read_all
from tests.contract.examined import change, findings, plant, set_scene, violations
from tests.contract.scenes import (
    claimed_one,
    given,
    instance,
    lane_view,
    orphaned,
    raise_limit,
    running,
    submitted,
)


@pytest.mark.parametrize("status", RunStatus, ids=str)
async def test_all_is_well_wherever_a_run_is(
    store: SqlStore, clock: FakeClock, status: RunStatus
) -> None:
    await given(store, clock, status)
    assert await findings(store, clock) == []


async def test_all_is_well_on_a_busy_database_which_is_left_as_it_is(
    store: SqlStore, clock: FakeClock
) -> None:
    scene = await set_scene(store)
    await orphaned(store, scene.running)
    await submitted(store, "ann", on_conflict=OnConflict.REPLACE)
    before = await read_all(store)
    checked = DoctorProgress()
    assert await findings(store, clock, checked) == []
    assert (checked.run_count, checked.lane_count) == (7, 3)
    assert checked.event_count == before["stream"][0][3]
    assert checked.done == checked.total > 0
    assert await read_all(store) == before


@pytest.mark.proves("I14")
async def test_of_what_was_pruned_nothing_is_missed(store: SqlStore, clock: FakeClock) -> None:
    await set_scene(store)
    (row,) = (await read_all(store))["stream"]
    for up_to_seq in range(1, row[3] + 1):
        await store.apply(PruneEvents(up_to_seq))
        assert await findings(store, clock) == []
    # Nor of what is pruned while the doctor looks.
    page = await SqlDoctorReader(store._database).event_page(after_seq=0, limit=10)
    assert (page.after_seq, page.up_to_seq, page.seqs) == (row[3], row[3], None)


@pytest.mark.proves("I12")
async def test_a_broken_path_of_states_is_named(store: SqlStore, clock: FakeClock) -> None:
    scene = await set_scene(store)
    start = [events.c.run_id == scene.running, events.c.run_seq == 2]
    for payload, words in (
        ('{"from":"queued","to":"succeeded"}', "queued to succeeded is no move from there"),
        ('{"from":"cancelling","to":"canceled"}', "cancelling to canceled is no move from there"),
        ('{"from":null,"to":"queued"}', "nothing to queued is no move from there"),
        ("{}", "cannot be read"),
        ('{"from":"queued","to":"canceled"}', "is running, but its events end at canceled"),
    ):
        await plant(store, change(events, start, payload=payload))
        ((promise, place, sentence),) = await violations(store, clock)
        assert promise == "I12"
        assert place.startswith(f"run {scene.running}")
        assert words in sentence


@pytest.mark.proves("I13")
async def test_an_event_that_is_missing_is_named_in_the_stream_and_in_its_run(
    store: SqlStore, clock: FakeClock
) -> None:
    scene = await set_scene(store)
    progress = [events.c.run_id == scene.running, events.c.run_seq == 3]
    async with store._database.open_session() as session:
        seq = await session.scalar(sa.select(events.c.seq).where(*progress))
    await plant(store, sa.delete(events).where(*progress))
    found = [(promise, place) for promise, place, _ in await violations(store, clock)]
    assert found == [("I13", f"event {seq}"), ("I13", f"run {scene.running}")]


@pytest.mark.proves("I13")
async def test_a_gap_is_named_once_however_wide(store: SqlStore, clock: FakeClock) -> None:
    await set_scene(store)
    ((*_, seq, _),) = (await read_all(store))["stream"]
    await plant(store, change(stream, seq=seq + 3))
    sentence = "missing: the stream has a gap (3 events)"
    assert await violations(store, clock) == [("I13", f"events {seq + 1} to {seq + 3}", sentence)]


@pytest.mark.proves("I13")
async def test_an_event_outside_the_stream_is_named(store: SqlStore, clock: FakeClock) -> None:
    await set_scene(store)
    ((*_, seq, _),) = (await read_all(store))["stream"]
    row = {"seq": seq + 5, "type": EventType.LOG.value, "payload": "{}", "at": clock()}
    await plant(store, sa.insert(events).values(row), change(stream, pruned_seq=2))
    found = [(promise, place) for promise, place, _ in await violations(store, clock)]
    assert found == [("I13", "event 1"), ("I13", f"event {seq + 5}")]


@pytest.mark.proves("I3")
async def test_a_key_without_a_head_is_named_by_those_that_wait_for_it(
    store: SqlStore, clock: FakeClock
) -> None:
    scene = await set_scene(store)
    behind = await submitted(store, "parked", on_conflict=OnConflict.ENQUEUE)
    await plant(store, change(runs, [runs.c.id == scene.parked], head_key=None))
    found = {place: sentence for _, place, sentence in await violations(store, clock)}
    assert found[f"run {behind}"] == "key 'parked' has active runs, but no head"
    assert set(found) == {f"run {behind}", f"run {scene.parked}"}


@pytest.mark.proves("I3")
async def test_a_message_that_nobody_counted_is_named(store: SqlStore, clock: FakeClock) -> None:
    scene = await set_scene(store)
    message = {"run_id": scene.ready, "seq": 1, "kind": "message", "payload": "1", "by": ""}
    await plant(store, sa.insert(inbox).values(message | {"at": clock()}))
    assert await violations(store, clock) == [
        ("I3", f"run {scene.ready}", "it says that 0 messages are unread, but there are 1")
    ]


@pytest.mark.proves("I9")
async def test_a_run_that_overtakes_another_of_its_key_is_named(
    store: SqlStore, clock: FakeClock
) -> None:
    first = await submitted(store, "eve")
    never = await submitted(store, "eve", on_conflict=OnConflict.ENQUEUE)
    second = await submitted(store, "eve", on_conflict=OnConflict.ENQUEUE)
    await store.apply(RequestCancel(run_id=never))
    behind, ready = int(QueueRank.BEHIND), int(QueueRank.READY)
    back = {"head_key": None, "waiting_key": "eve", "queue_rank": behind, "ready_seq": None}
    front = {"head_key": "eve", "waiting_key": None, "queue_rank": ready, "ready_seq": 1}
    await plant(
        store,
        change(runs, [runs.c.id == first], **back),
        change(runs, [runs.c.id == second], **front),
    )
    assert await violations(store, clock) == [
        ("I9", f"run {first}", "a later run of key 'eve' is to start before it")
    ]
    one = await claimed_one(store, await instance(store))
    started = [("I9", f"run {second}", "it started before an earlier run of key 'eve'")]
    assert await violations(store, clock) == started
    # Whatever comes after does not mend it: first with the earlier run ready, then started too.
    await store.apply(Complete(claim_of(one)))
    assert await violations(store, clock) == started
    await claimed_one(store, await instance(store))
    assert await violations(store, clock) == started


@pytest.mark.proves("I5")
async def test_more_slots_than_the_limit_are_a_violation_unless_it_was_lowered(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await instance(store)
    for number in range(3):
        await running(store, f"key-{number}", by=holder)
    sentence = "3 slots are held, and the limit is 2"
    await plant(store, change(lanes, [lanes.c.name == "main"], max_concurrent=2))
    assert await violations(store, clock) == [
        ("I5", "lane 'main'", sentence),
        ("I5", "lane 'main', event 6", "3 slots were held after it, and the limit was 2"),
    ]
    await raise_limit(store, 2)
    (found,) = await findings(store, clock)
    assert (found.severity, found.promise) == (Severity.NOTE, "I5")
    assert found.sentence.startswith(f"{sentence}: it was lowered")


@pytest.mark.proves("I5")
async def test_a_slot_that_was_given_above_the_limit_is_a_violation(
    store: SqlStore, clock: FakeClock
) -> None:
    await raise_limit(store, 4)
    holder = await instance(store)
    for number in range(4):
        await running(store, f"key-{number}", by=holder)
    assert (await lane_view(store)).held_count == 4
    await raise_limit(store, 4, lane="cron")  # Another lane's change excuses nothing.
    await plant(store, change(lanes, [lanes.c.name == "main"], max_concurrent=3))
    assert await violations(store, clock) == [
        ("I5", "lane 'main'", "4 slots are held, and the limit is 3")
    ]


@pytest.mark.proves("I5")
async def test_a_limit_broken_for_a_moment_is_found_in_the_stream(
    store: SqlStore, clock: FakeClock
) -> None:
    """Afterwards the rows look right: only the replay of the events shows the fourth slot."""
    main = [lanes.c.name == "main"]
    holder = await instance(store)
    await plant(store, change(lanes, main, max_concurrent=4))
    claims = [await running(store, f"key-{number}", by=holder) for number in range(4)]
    await store.apply(RequestCancel(run_id=claims[0].run_id))
    await plant(store, change(lanes, main, max_concurrent=3))
    for claim in claims[:2]:
        await store.apply(Complete(claim_of(claim)))
    assert (await lane_view(store)).held_count == 2
    assert await violations(store, clock) == [
        ("I5", "lane 'main', event 8", "4 slots were held after it, and the limit was 3")
    ]


@pytest.mark.proves("I8")
async def test_a_run_held_by_an_instance_that_is_unknown_is_named(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store)
    await plant(store, sa.delete(instances))
    ((promise, place, sentence),) = await violations(store, clock)
    assert (promise, place) == ("I8", f"run {one.run_id}")
    assert sentence.endswith("which is unknown")


@pytest.mark.proves("I8")
@pytest.mark.parametrize("weight", Severity, ids=str)
async def test_what_is_late_is_a_violation_only_when_somebody_was_there_to_see_to_it(
    store: SqlStore, clock: FakeClock, weight: Severity
) -> None:
    gone, dead = await instance(store, ttl_s=10), await instance(store)
    await store.apply(DeclareDead(dead, is_proven=True))
    if weight is Severity.VIOLATION:
        await instance(store)
    held = await running(store, "held", by=gone)
    parked = await running(store, "parked", by=gone)
    await store.apply(Park(claim_of(parked), wake_at=add_seconds(clock(), seconds=10)))
    cancelling = await running(store, "cancelling", by=gone)
    await store.apply(RequestCancel(run_id=cancelling.run_id, grace_s=10))
    clock.advance(10 + TOLERANCE_S - 0.001)
    assert await findings(store, clock) == []
    await instance(store)  # Who has only just come is not to blame.
    clock.advance(0.001)
    found = await findings(store, clock)
    assert {finding.severity for finding in found} == {weight}
    assert {(finding.promise, finding.subject) for finding in found} == {
        ("I8", f"run {held.run_id}"),
        ("I18", f"run {parked.run_id}"),
        ("I8", f"run {cancelling.run_id}"),
        ("I11", f"run {cancelling.run_id}"),
    }


@pytest.mark.proves("I19")
async def test_it_reads_in_pages_and_sees_to_the_end_of_each(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "RUN_COUNT_MAX", 2)
    monkeypatch.setattr(doctor, "EVENT_COUNT_MAX", 3)
    await set_scene(store)
    last = await submitted(store, "last", job="fetch")
    checked = DoctorProgress()
    assert await findings(store, clock, checked) == []
    ((*_, seq, _),) = (await read_all(store))["stream"]
    assert (checked.run_count, checked.event_count) == (7, seq)
    await plant(store, change(runs, [runs.c.id == last], unread_count=1))
    await plant(store, sa.delete(events).where(events.c.run_id == last))
    places = {place for _, place, _ in await violations(store, clock)}
    assert places == {f"run {last}", f"event {seq}"}


@pytest.mark.proves("I21")
async def test_servers_that_fell_silent_are_noted_with_the_way_back_if_none_is_alive(
    store: SqlStore, clock: FakeClock
) -> None:
    silent = await instance(store, ttl_s=5)
    assert await findings(store, clock) == []
    clock.advance(TOLERANCE_S + 6)
    (found,) = await findings(store, clock)
    assert (found.severity, found.promise, found.subject) == (
        Severity.NOTE,
        "I21",
        f"instance {silent}",
    )
    assert "headway db accept-primary" in found.sentence
    await instance(store)
    assert await findings(store, clock) == []
