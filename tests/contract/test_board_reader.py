"""The board reader on every backend: a lane, open interrupts, schedules and counts."""

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.save_key import SaveKey
from headway.core.command.admin.schedules import FireSchedule
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.inbox import ANSWER, PostToInbox
from headway.core.command.run.interrupt import OpenInterrupt
from headway.core.command.run.settle import Complete
from headway.core.command.run.submit import Busy
from headway.core.command.run.wait import ReleaseSlot
from headway.core.document import Document
from headway.core.ids import Key, LaneName, RunId
from headway.core.run import recent
from headway.core.run.status import RunStatus
from headway.core.schedule import Schedule
from headway.testing import FakeClock, a_submit, claim_of
from tests.contract.scenes import claim_run, raise_limit, register_instance, start_run, submit_run


@pytest.mark.proves("R1.2")
async def test_one_lane_is_read_with_its_counts(store: SqlStore) -> None:
    await raise_limit(store, 1)
    for key in ("ann", "bob", "cem"):
        await submit_run(store, key)
    await claim_run(store, await register_instance(store))
    view = await store.board.lane(LaneName("main"))
    assert view is not None
    assert (view.lane.max_concurrent, view.held_count, view.queued_count) == (1, 1, 2)
    assert view.waiting_count == 0
    assert await store.board.lane(LaneName("nowhere")) is None


@pytest.mark.proves("R1.10")
async def test_lane_counts_runs_that_wait_without_a_slot(store: SqlStore) -> None:
    me = await register_instance(store)
    run = await start_run(store, "ann", by=me)
    await start_run(store, "bob", by=me)
    await store.apply(ReleaseSlot(claim_of(run)))
    view = await store.board.lane(LaneName("main"))
    assert view is not None
    assert (view.held_count, view.waiting_count) == (1, 1)
    listed = {str(view.lane.name): view.waiting_count for view in await store.runs.lanes()}
    assert (listed["main"], listed["cron"]) == (1, 0)


@pytest.mark.proves("R4.13")
async def test_interrupts_are_open_until_they_are_answered(store: SqlStore) -> None:
    me = await register_instance(store)
    asking = []
    for key in ("ann", "bob"):
        run_id = await submit_run(store, key)
        claim = claim_of(await claim_run(store, me))
        assert claim.run_id == run_id
        await store.apply(OpenInterrupt(claim, "q1", Document('{"tool":"delete"}')))
        asking.append(run_id)
    rows = [interrupt async for interrupt in store.board.interrupts(limit=10)]
    assert [(row.interrupt.run_id, row.key) for row in rows] == [
        (asking[0], "ann"),
        (asking[1], "bob"),
    ]
    (first,) = [interrupt async for interrupt in store.board.interrupts(limit=1)]
    rest = [run async for run in store.board.interrupts(limit=9, after=first.cursor)]
    assert [row.interrupt.run_id for row in rest] == asking[1:]
    await store.apply(
        PostToInbox(run_id=asking[0], kind=ANSWER, payload=Document("true"), call_id="q1")
    )
    (remaining,) = [interrupt async for interrupt in store.board.interrupts(limit=10)]
    assert remaining.interrupt.run_id == asking[1]


@pytest.mark.proves("I20")
async def test_interrupts_are_read_in_chunks(store: SqlStore, clock: FakeClock) -> None:
    await submit_run(store, "ann")
    claim = claim_of(await claim_run(store, await register_instance(store)))
    names = [f"q{number:02}" for number in range(40)]
    for number, name in enumerate(names):  # Three at each instant.
        await store.apply(OpenInterrupt(claim, name, Document("{}")))
        clock.advance(number % 3 == 2)
    for limit in (1, 16, 17, 39, 99):
        rows = store.board.interrupts(limit=limit, run_id=claim.run_id)
        assert [row.interrupt.call_id async for row in rows] == names[:limit]
    reading = store.board.interrupts(limit=99)
    found_ids = [(await anext(reading)).interrupt.call_id]
    for name in (names[5], names[30]):
        await store.apply(
            PostToInbox(run_id=claim.run_id, kind=ANSWER, payload=Document("1"), call_id=name)
        )
    found_ids += [row.interrupt.call_id async for row in reading]
    assert found_ids == [
        *names[:30],
        *names[31:],
    ]  # The answered one was not in the chunk read before.


async def test_schedules_are_read_as_they_were_stored(store: SqlStore) -> None:
    schedule = Schedule(name="nightly", expression="0 3 * * *", job="work", key=Key("nightly"))
    await store.apply(FireSchedule(schedule, RunId("r1")))
    (saved,) = await store.board.schedules()
    assert (saved.name, saved.expression, saved.revision) == ("nightly", "0 3 * * *", 1)


@pytest.mark.proves("R1.10")
async def test_board_counts_live_rows(store: SqlStore) -> None:
    me = await register_instance(store)
    await submit_run(store, "ann")
    claim = claim_of(await claim_run(store, me))
    await store.apply(OpenInterrupt(claim, "q1", Document("{}")))
    await submit_run(store, "bob")
    figures = await store.board.metrics()
    counts = {view.lane.name: (view.held_count, view.queued_count) for view in figures.lanes}
    assert counts[LaneName("main")] == (1, 1)
    assert (figures.interrupt_count, figures.instance_count) == (1, 1)
    page = await store.events.events(after_seq=0, limit=1)
    assert figures.last_seq == page.last_seq


@pytest.mark.proves("R1.10")
async def test_snapshot_has_the_last_run_of_each_saved_key(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A saved key's last run is listed at any age, an unsaved key's only while it is recent."""
    monkeypatch.setattr(recent, "KEY_COUNT_MAX", 1)
    me = await register_instance(store)
    for key in ("ann", "bob"):
        await store.apply(
            SaveKey(key=Key(key), job="work", params=Document("{}"), expected_revision=None)
        )
    ended = dict[str, RunId]()
    for key in ("unsaved", "ann", "ann", "new", "new"):
        ended[key] = await submit_run(store, key)
        await store.apply(Complete(claim_of(await claim_run(store, me)), Document("null")))
    snapshot = await store.runs.snapshot()
    assert [recent_key.key for recent_key in snapshot.recent_keys] == ["new"]
    shown = sorted(
        (record.run.key, record.run.id, record.run.status) for record in snapshot.last_runs
    )
    assert shown == [(key, ended[key], RunStatus.SUCCEEDED) for key in ("ann", "new")]
    last = {await submit_run(store, key) for key in ("ann", "new")}
    snapshot = await store.runs.snapshot()
    assert [recent_key.key for recent_key in snapshot.recent_keys] == ["new"]
    # The waiting run, and the run before it: that one has the counts if the other never starts.
    assert {record.run.id for record in snapshot.last_runs} == {ended["ann"], ended["new"]} | last
    assert len(snapshot.last_runs) == 4
    assert [row.id for row in snapshot.instances] == [me]


@pytest.mark.proves("R2.1")
async def test_refused_submission_is_not_the_last_run_of_its_key(store: SqlStore) -> None:
    me = await register_instance(store)
    await store.apply(SaveKey(key=Key("ann"), job="work"))
    await submit_run(store, "ann")
    await store.apply(Complete(claim_of(await claim_run(store, me)), Document("null")))
    waiting = await submit_run(store, "ann")
    refused = a_submit("ann", is_unattended=True)
    assert isinstance(await store.apply(refused), Busy)
    await store.apply(RequestCancel(run_id=waiting))
    last_runs = (await store.runs.snapshot()).last_runs
    statuses = {record.run.status for record in last_runs}
    assert statuses == {RunStatus.SUCCEEDED, RunStatus.CANCELED}
    assert len(last_runs) == 2
