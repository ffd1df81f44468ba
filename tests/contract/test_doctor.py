"""The doctor finds nothing in the store's own writes, and finds every corruption."""

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
from tests.contract.doctor_scene import build_scene, change, findings, violations, write_directly
from tests.contract.scenes import (
    bring_run_to,
    claim_run,
    orphan_run,
    raise_limit,
    read_lane,
    register_instance,
    start_run,
    submit_run,
)


@pytest.mark.parametrize("status", RunStatus, ids=str)
async def test_doctor_reports_nothing_for_a_run_in_any_state(
    store: SqlStore, clock: FakeClock, status: RunStatus
) -> None:
    await bring_run_to(store, clock, status)
    assert await findings(store, clock) == []


async def test_doctor_reports_nothing_on_a_busy_database_and_changes_nothing(
    store: SqlStore, clock: FakeClock
) -> None:
    scene = await build_scene(store)
    await orphan_run(store, scene.running)
    await submit_run(store, "ann", on_conflict=OnConflict.REPLACE)
    before = await read_all(store)
    checked = DoctorProgress()
    assert await findings(store, clock, checked) == []
    assert (checked.run_count, checked.lane_count) == (7, 3)
    assert checked.event_count == before["stream"][0][3]
    assert checked.done == checked.total > 0
    assert await read_all(store) == before


@pytest.mark.proves("I14")
async def test_pruned_rows_are_not_reported_as_missing(store: SqlStore, clock: FakeClock) -> None:
    await build_scene(store)
    (row,) = (await read_all(store))["stream"]
    for up_to_seq in range(1, row[3] + 1):
        await store.apply(PruneEvents(up_to_seq))
        assert await findings(store, clock) == []
    # The same holds for rows that are pruned while the doctor reads.
    page = await SqlDoctorReader(store._database).event_page(after_seq=0, limit=10)
    assert (page.after_seq, page.up_to_seq, page.seqs) == (row[3], row[3], None)


@pytest.mark.proves("I12")
async def test_invalid_sequence_of_states_is_reported(store: SqlStore, clock: FakeClock) -> None:
    scene = await build_scene(store)
    start = [events.c.run_id == scene.running, events.c.run_seq == 2]
    for payload, fragment in (
        (
            '{"from":"queued","to":"succeeded"}',
            "queued to succeeded is not an allowed transition there",
        ),
        (
            '{"from":"cancelling","to":"canceled"}',
            "cancelling to canceled is not an allowed transition there",
        ),
        ('{"from":null,"to":"queued"}', "nothing to queued is not an allowed transition there"),
        ("{}", "cannot be parsed"),
        ('{"from":"queued","to":"canceled"}', "is running, but its events end at canceled"),
    ):
        await write_directly(store, change(events, start, payload=payload))
        ((promise, subject, sentence),) = await violations(store, clock)
        assert promise == "I12"
        assert subject.startswith(f"run {scene.running}")
        assert fragment in sentence


@pytest.mark.proves("I13")
async def test_missing_event_is_reported_in_the_stream_and_in_its_run(
    store: SqlStore, clock: FakeClock
) -> None:
    scene = await build_scene(store)
    progress = [events.c.run_id == scene.running, events.c.run_seq == 3]
    async with store._database.open_session() as session:
        seq = await session.scalar(sa.select(events.c.seq).where(*progress))
    await write_directly(store, sa.delete(events).where(*progress))
    reported = [(promise, subject) for promise, subject, _ in await violations(store, clock)]
    assert reported == [("I13", f"event {seq}"), ("I13", f"run {scene.running}")]


@pytest.mark.proves("I13")
async def test_gap_of_several_events_is_reported_once(store: SqlStore, clock: FakeClock) -> None:
    await build_scene(store)
    ((*_, seq, _),) = (await read_all(store))["stream"]
    await write_directly(store, change(stream, seq=seq + 3))
    sentence = "missing: the stream has a gap (3 events)"
    assert await violations(store, clock) == [("I13", f"events {seq + 1} to {seq + 3}", sentence)]


@pytest.mark.proves("I13")
async def test_event_outside_the_stream_is_reported(store: SqlStore, clock: FakeClock) -> None:
    await build_scene(store)
    ((*_, seq, _),) = (await read_all(store))["stream"]
    row = {"seq": seq + 5, "type": EventType.LOG.value, "payload": "{}", "at": clock()}
    await write_directly(store, sa.insert(events).values(row), change(stream, pruned_seq=2))
    reported = [(promise, subject) for promise, subject, _ in await violations(store, clock)]
    assert reported == [("I13", "event 1"), ("I13", f"event {seq + 5}")]


@pytest.mark.proves("I3")
async def test_waiting_runs_of_a_key_without_a_head_are_reported(
    store: SqlStore, clock: FakeClock
) -> None:
    scene = await build_scene(store)
    behind = await submit_run(store, "parked", on_conflict=OnConflict.ENQUEUE)
    await write_directly(store, change(runs, [runs.c.id == scene.parked], head_key=None))
    reported = {subject: sentence for _, subject, sentence in await violations(store, clock)}
    assert reported[f"run {behind}"] == "key 'parked' has active runs, but no head"
    assert set(reported) == {f"run {behind}", f"run {scene.parked}"}


@pytest.mark.proves("I3")
async def test_wrong_count_of_unread_messages_is_reported(
    store: SqlStore, clock: FakeClock
) -> None:
    scene = await build_scene(store)
    message = {"run_id": scene.ready, "seq": 1, "kind": "message", "payload": "1", "by": ""}
    await write_directly(store, sa.insert(inbox).values(message | {"at": clock()}))
    assert await violations(store, clock) == [
        ("I3", f"run {scene.ready}", "its unread count is 0, but its inbox has 1 unread items")
    ]


@pytest.mark.proves("I9")
async def test_run_that_overtakes_another_of_its_key_is_reported(
    store: SqlStore, clock: FakeClock
) -> None:
    first = await submit_run(store, "eve")
    never = await submit_run(store, "eve", on_conflict=OnConflict.ENQUEUE)
    second = await submit_run(store, "eve", on_conflict=OnConflict.ENQUEUE)
    await store.apply(RequestCancel(run_id=never))
    behind, ready = int(QueueRank.BEHIND), int(QueueRank.READY)
    back = {"head_key": None, "waiting_key": "eve", "queue_rank": behind, "ready_seq": None}
    front = {"head_key": "eve", "waiting_key": None, "queue_rank": ready, "ready_seq": 1}
    await write_directly(
        store,
        change(runs, [runs.c.id == first], **back),
        change(runs, [runs.c.id == second], **front),
    )
    assert await violations(store, clock) == [
        ("I9", f"run {first}", "a later run of key 'eve' is ahead of it")
    ]
    run = await claim_run(store, await register_instance(store))
    started = [("I9", f"run {second}", "it started before an earlier run of key 'eve'")]
    assert await violations(store, clock) == started
    # Later changes do not remove the finding: first the earlier run is ready, then started.
    await store.apply(Complete(claim_of(run)))
    assert await violations(store, clock) == started
    await claim_run(store, await register_instance(store))
    assert await violations(store, clock) == started


@pytest.mark.proves("I5")
async def test_held_slots_above_the_limit_are_a_violation_unless_the_limit_was_lowered(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await register_instance(store)
    for number in range(3):
        await start_run(store, f"key-{number}", by=holder)
    sentence = "3 slots are held, and the limit is 2"
    await write_directly(store, change(lanes, [lanes.c.name == "main"], max_concurrent=2))
    assert await violations(store, clock) == [
        ("I5", "lane 'main'", sentence),
        ("I5", "lane 'main', event 6", "3 slots were held after it, and the limit was 2"),
    ]
    await raise_limit(store, 2)
    (reported,) = await findings(store, clock)
    assert (reported.severity, reported.promise) == (Severity.NOTE, "I5")
    assert reported.sentence.startswith(f"{sentence}: it was lowered")


@pytest.mark.proves("I5")
async def test_slot_granted_above_the_limit_is_a_violation(
    store: SqlStore, clock: FakeClock
) -> None:
    await raise_limit(store, 4)
    holder = await register_instance(store)
    for number in range(4):
        await start_run(store, f"key-{number}", by=holder)
    assert (await read_lane(store)).held_count == 4
    await raise_limit(store, 4, lane="cron")  # A change of another lane is no excuse.
    await write_directly(store, change(lanes, [lanes.c.name == "main"], max_concurrent=3))
    assert await violations(store, clock) == [
        ("I5", "lane 'main'", "4 slots are held, and the limit is 3")
    ]


@pytest.mark.proves("I5")
async def test_temporarily_exceeded_limit_is_found_in_the_stream(
    store: SqlStore, clock: FakeClock
) -> None:
    """Afterwards the rows are right. Only the replay of the events shows the fourth slot."""
    main = [lanes.c.name == "main"]
    holder = await register_instance(store)
    await write_directly(store, change(lanes, main, max_concurrent=4))
    claims = [await start_run(store, f"key-{number}", by=holder) for number in range(4)]
    await store.apply(RequestCancel(run_id=claims[0].run_id))
    await write_directly(store, change(lanes, main, max_concurrent=3))
    for claim in claims[:2]:
        await store.apply(Complete(claim_of(claim)))
    assert (await read_lane(store)).held_count == 2
    assert await violations(store, clock) == [
        ("I5", "lane 'main', event 8", "4 slots were held after it, and the limit was 3")
    ]


@pytest.mark.proves("I8")
async def test_run_held_by_an_unknown_instance_is_reported(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store)
    await write_directly(store, sa.delete(instances))
    ((promise, subject, sentence),) = await violations(store, clock)
    assert (promise, subject) == ("I8", f"run {run.run_id}")
    assert sentence.endswith("which is unknown")


@pytest.mark.proves("I8")
@pytest.mark.parametrize("weight", Severity, ids=str)
async def test_overdue_run_is_a_violation_only_if_an_instance_could_have_handled_it(
    store: SqlStore, clock: FakeClock, weight: Severity
) -> None:
    expired, dead = await register_instance(store, ttl_s=10), await register_instance(store)
    await store.apply(DeclareDead(dead, is_proven=True))
    if weight is Severity.VIOLATION:
        await register_instance(store)
    held = await start_run(store, "held", by=expired)
    parked = await start_run(store, "parked", by=expired)
    await store.apply(Park(claim_of(parked), wake_at=add_seconds(clock(), seconds=10)))
    cancelling = await start_run(store, "cancelling", by=expired)
    await store.apply(RequestCancel(run_id=cancelling.run_id, grace_s=10))
    clock.advance(10 + TOLERANCE_S - 0.001)
    assert await findings(store, clock) == []
    await register_instance(store)  # An instance that registered just now is not responsible.
    clock.advance(0.001)
    reported = await findings(store, clock)
    assert {finding.severity for finding in reported} == {weight}
    assert {(finding.promise, finding.subject) for finding in reported} == {
        ("I8", f"run {held.run_id}"),
        ("I18", f"run {parked.run_id}"),
        ("I8", f"run {cancelling.run_id}"),
        ("I11", f"run {cancelling.run_id}"),
    }


@pytest.mark.proves("I19")
async def test_doctor_reads_all_pages_to_the_last_one(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "RUN_COUNT_MAX", 2)
    monkeypatch.setattr(doctor, "EVENT_COUNT_MAX", 3)
    await build_scene(store)
    last = await submit_run(store, "last", job="fetch")
    checked = DoctorProgress()
    assert await findings(store, clock, checked) == []
    ((*_, seq, _),) = (await read_all(store))["stream"]
    assert (checked.run_count, checked.event_count) == (7, seq)
    await write_directly(store, change(runs, [runs.c.id == last], unread_count=1))
    await write_directly(store, sa.delete(events).where(events.c.run_id == last))
    subjects = {subject for _, subject, _ in await violations(store, clock)}
    assert subjects == {f"run {last}", f"event {seq}"}


@pytest.mark.proves("I21")
async def test_doctor_notes_instances_with_expired_leases_if_none_is_alive(
    store: SqlStore, clock: FakeClock
) -> None:
    silent = await register_instance(store, ttl_s=5)
    assert await findings(store, clock) == []
    clock.advance(TOLERANCE_S + 6)
    (reported,) = await findings(store, clock)
    assert (reported.severity, reported.promise, reported.subject) == (
        Severity.NOTE,
        "I21",
        f"instance {silent}",
    )
    assert "headway db accept-primary" in reported.sentence
    await register_instance(store)
    assert await findings(store, clock) == []
