"""Reading: lists by keyset, pages without gaps or repeats, snapshots of one instant (R1.10)."""

import asyncio
from collections.abc import Sequence

import pytest

from headway.adapters.sql.read import read_runs
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.save_key import SaveKey
from headway.core.command.run.cancel import CancelResult, RequestCancel
from headway.core.command.run.report import SaveProgress
from headway.core.command.run.settle import Complete, Fail
from headway.core.command.run.wait import ReleaseSlot, Retry
from headway.core.ids import InstanceId, Key, LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.ports.run_reader import RunFilter
from headway.testing import FakeClock, a_claim, a_submit, an_error, claim_of, document
from tests.contract.scenes import (
    claimed,
    given,
    instance,
    lane_view,
    raise_limit,
    running,
    submitted,
)

ALL = RunFilter()


async def pages(store: SqlStore, wanted: RunFilter, *, limit: int) -> list[list[RunId]]:
    found: list[list[RunId]] = []
    before_seq = None
    while True:
        reading = store.runs.list_runs(wanted, limit=limit, before_seq=before_seq)
        page = [kept async for kept in reading]
        if not page:
            return found
        found.append([kept.run.id for kept in page])
        before_seq = page[-1].run.seq


@pytest.mark.proves("R1.10")
async def test_a_list_goes_by_pages_newest_first(store: SqlStore) -> None:
    run_ids = [await submitted(store, f"key-{number}") for number in range(7)]
    run_ids.reverse()
    found = await pages(store, ALL, limit=3)
    assert found == [run_ids[:3], run_ids[3:6], run_ids[6:]]


@pytest.mark.proves("R7.11")
async def test_the_traceback_of_the_last_failed_attempt_is_read_with_its_run_alone(
    store: SqlStore,
) -> None:
    one = await running(store)
    await store.apply(Retry(claim_of(one), an_error(), 0.0, "Traceback: the first"))
    found = await store.runs.run(one.run_id)
    assert found is not None
    assert found.traceback == "Traceback: the first"
    again = (await claimed(store, a_claim(await instance(store))))[0]
    await store.apply(Fail(claim_of(again), an_error(), "Traceback: the second\n\tat the end"))
    found = await store.runs.run(one.run_id)
    assert found is not None
    assert found.traceback == "Traceback: the second\n\tat the end"
    assert [kept.traceback async for kept in store.runs.list_runs(ALL, limit=9)] == [None]
    page = await store.events.events(after_seq=0, limit=99)
    assert not [event for event in page.events if "Traceback" in event.payload]


@pytest.mark.proves("R1.10")
async def test_a_run_says_when_it_last_changed(store: SqlStore, clock: FakeClock) -> None:
    one = await running(store)
    for write in (
        SaveProgress(claim_of(one), document({"n": 1})),
        ReleaseSlot(claim_of(one)),
        Complete(claim_of(one)),
    ):
        clock.advance(1)
        await store.apply(write)
        found = await store.runs.run(one.run_id)
        assert found is not None
        assert found.run.updated_at == clock()


@pytest.mark.proves("R1.10")
async def test_what_is_added_meanwhile_neither_repeats_nor_hides_anything(
    store: SqlStore,
) -> None:
    run_ids = [await submitted(store, f"key-{number}") for number in range(9)]
    run_ids.reverse()
    found: list[RunId] = []
    before_seq = None
    while len(found) < len(run_ids):
        page = [one async for one in store.runs.list_runs(ALL, limit=2, before_seq=before_seq)]
        found += [kept.run.id for kept in page]
        before_seq = page[-1].run.seq
        await submitted(store, f"new-{len(found)}")
    assert found == run_ids


@pytest.mark.proves("I20")
@pytest.mark.parametrize("statuses", [(), ("queued", "canceled")])
async def test_runs_are_read_a_few_at_once(store: SqlStore, statuses: Sequence[str]) -> None:
    """One that moves meanwhile is neither missed nor told twice; what is new is not looked for."""
    run_ids = [await submitted(store, f"key-{number}") for number in range(40)]
    run_ids.reverse()
    wanted = RunFilter(statuses=frozenset(map(RunStatus, statuses)))
    for limit in (1, 16, 17, 39, 99):
        (first, *_) = await pages(store, wanted, limit=limit)
        assert first == run_ids[:limit]
    reading = store.runs.list_runs(wanted, limit=40)
    found = [await anext(reading)]
    for run_id in (run_ids[0], run_ids[5], run_ids[30]):
        assert await store.apply(RequestCancel(run_id=run_id)) is CancelResult.CANCELED
    await submitted(store, "new")
    found += [kept async for kept in reading]
    assert [kept.run.id for kept in found] == run_ids
    assert found[5].run.status is RunStatus.QUEUED
    assert found[30].run.status is RunStatus.CANCELED  # It had not been read before.


@pytest.mark.proves("R1.10")
async def test_a_list_can_be_filtered(store: SqlStore, clock: FakeClock) -> None:
    one = await running(store, "ann", job="fetch", lane="slow")
    await store.apply(Complete(claim_of(one)))
    queued = await submitted(store, "ann", job="fetch", lane="slow")
    other = await submitted(store, "bob", job="mirror")
    timed_out = (await given(store, clock, RunStatus.TIMED_OUT, key="carl")).run_id

    async def found(**wanted: object) -> set[RunId]:
        (page,) = await pages(store, RunFilter(**wanted), limit=10)  # type: ignore[arg-type]
        return set(page)

    assert await found(key=Key("ann")) == {one.run_id, queued}
    assert await found(lane=LaneName("slow")) == {one.run_id, queued}
    assert await found(job="mirror") == {other, timed_out}
    assert await found(statuses=frozenset({RunStatus.QUEUED})) == {queued, other}
    ended = frozenset({RunStatus.SUCCEEDED, RunStatus.TIMED_OUT})
    assert await found(statuses=ended) == {one.run_id, timed_out}
    assert await found(key=Key("ann"), statuses=ended) == {one.run_id}
    assert await pages(store, RunFilter(key=Key("nobody")), limit=10) == []


@pytest.mark.proves("I8")
async def test_many_runs_are_asked_for_at_once(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_runs, "_ID_CHUNK_COUNT", 2)
    mine, others = await instance(store), await instance(store)
    held = [await running(store, key, lane=key, by=mine) for key in "abc"]
    aside = await running(store, "d", lane="d", by=others)
    queued = await submitted(store, "e")
    asked = [*(one.run_id for one in held[:2]), aside.run_id, queued, RunId("none")]
    found = await store.runs.filter_held_runs(mine, asked)
    assert {run.claim for run in found} == {claim_of(one) for one in held[:2]}
    assert {run.status for run in found} == {RunStatus.RUNNING}
    seqs = await store.runs.run_seqs(asked)
    assert seqs == {held[0].run_id: 2, held[1].run_id: 2, aside.run_id: 2, queued: 1}
    await store.apply(Complete(claim_of(held[0])))
    assert await store.runs.filter_held_runs(mine, asked[:1]) == []
    assert (await store.runs.run_seqs(asked[:1])) == {held[0].run_id: 3}


@pytest.mark.proves("R1.10")
async def test_what_is_not_there_is_none_or_empty(store: SqlStore) -> None:
    assert await store.runs.run(RunId("none")) is None
    assert list(await store.runs.inbox(RunId("none"))) == []
    assert list(await store.runs.instances()) == []
    assert [one async for one in store.runs.keys(limit=10)] == []
    assert list(await store.runs.runs_held_by(InstanceId("none"), limit=10)) == []
    assert list(await store.runs.filter_held_runs(InstanceId("none"), [RunId("none")])) == []
    assert await store.runs.run_seqs([RunId("none")]) == {}
    assert list(await store.runs.oldest_runs(after_seq=0, limit=10)) == []
    snapshot = await store.runs.snapshot()
    assert (snapshot.seq, snapshot.runs, snapshot.keys) == (0, [], [])
    page = await store.events.events(after_seq=0, limit=10)
    assert (page.events, page.last_seq, page.pruned_seq) == ([], 0, 0)


@pytest.mark.proves("I14")
async def test_events_go_by_pages_without_gap_or_repeat(store: SqlStore) -> None:
    for number in range(5):
        await submitted(store, f"key-{number}")
    seen: list[int] = []
    while True:
        page = await store.events.events(after_seq=seen[-1] if seen else 0, limit=2)
        if not page.events:
            break
        seen += [event.seq for event in page.events]
        if len(seen) == 2:
            await submitted(store, "meanwhile")
    assert seen == list(range(1, 7))
    assert page.last_seq == 6


@pytest.mark.proves("I14")
async def test_the_events_of_one_run_rise_without_being_dense(store: SqlStore) -> None:
    holder = await instance(store)
    ones = [await running(store, f"key-{number}", by=holder) for number in range(2)]
    for one in ones:
        await store.apply(Complete(claim_of(one)))
    page = await store.events.events(after_seq=0, limit=100, run_id=ones[0].run_id)
    assert [event.run_seq for event in page.events] == [1, 2, 3]
    assert [event.seq for event in page.events] == [1, 2, 5]
    assert page.last_seq == 6
    rest = await store.events.events(after_seq=2, limit=100, run_id=ones[0].run_id)
    assert [event.seq for event in rest.events] == [5]


@pytest.mark.proves("I13")
async def test_a_snapshot_shows_what_is_active_and_the_rows_of_the_keys(
    store: SqlStore, clock: FakeClock
) -> None:
    await store.apply(SaveKey(key=Key("zoe"), job="mirror"))
    for status in (RunStatus.SUCCEEDED, RunStatus.REJECTED, RunStatus.CANCELED):
        await given(store, clock, status, key=f"key of {status}", lane=status)
    one = await running(store, "ann", lane="wide")
    behind = await submitted(store, "ann", lane="wide", on_conflict=OnConflict.ENQUEUE)
    snapshot = await store.runs.snapshot()
    active = [kept.run.id for kept in snapshot.runs]
    assert active[1:] == [one.run_id, behind]  # The first is who kept the rejected one out.
    assert [row.key for row in snapshot.keys] == ["zoe"]
    wide = next(view for view in snapshot.lanes if view.lane.name == "wide")
    assert (wide.held_count, wide.queued_count) == (1, 1)


@pytest.mark.proves("I13")
async def test_a_snapshot_is_of_one_instant(store: SqlStore, another_store: SqlStore) -> None:
    """Whenever it is taken, its figures are those of its own runs."""
    await raise_limit(store, 5)
    holder = await instance(store)
    snapshots = []

    async def work() -> None:
        for number in range(15):
            submits = (a_submit(f"{number}-{n}") for n in range(4))
            await asyncio.gather(*(another_store.apply(submit) for submit in submits))
            for one in await claimed(another_store, a_claim(holder, count=5)):
                await another_store.apply(Complete(claim_of(one)))

    async def look() -> None:
        for _ in range(20):
            snapshots.append(await store.runs.snapshot())  # noqa: PERF401 - Each is a look.

    await asyncio.gather(work(), look())
    for snapshot in snapshots:
        (main,) = (view for view in snapshot.lanes if view.lane.name == "main")
        states = [kept.run for kept in snapshot.runs]
        assert main.held_count == sum(run.slot == "main" for run in states)
        assert main.queued_count == sum(run.status is RunStatus.QUEUED for run in states)
        assert all(run.seq <= snapshot.seq for run in states)


@pytest.mark.proves("I20")
async def test_the_rows_of_keys_are_read_a_few_at_once(store: SqlStore) -> None:
    names = [f"key-{number:02}" for number in range(40)]
    for name in names:
        await store.apply(SaveKey(key=Key(name), job="mirror"))
    for limit in (1, 16, 17, 39, 99):
        assert [row.key async for row in store.runs.keys(limit=limit)] == names[:limit]
    reading = store.runs.keys(limit=99)
    found = [await anext(reading)]
    for name in names[5], names[30]:
        await store.apply(SaveKey(key=Key(name), job="other"))
    found += [row async for row in reading]
    assert [row.key for row in found] == names
    assert (found[5].job, found[30].job) == ("mirror", "other")  # That had not been read before.


@pytest.mark.proves("R1.10")
async def test_the_rows_of_keys_go_by_pages(store: SqlStore) -> None:
    names = [f"key-{number}" for number in range(5)]
    for name in reversed(names):
        await store.apply(SaveKey(key=Key(name), job="mirror"))
    first = [one async for one in store.runs.keys(limit=3)]
    rest = [one async for one in store.runs.keys(limit=3, after=first[-1].key)]
    assert [row.key for row in (*first, *rest)] == names


@pytest.mark.proves("R1.10")
async def test_lanes_show_what_is_held_and_what_waits(store: SqlStore) -> None:
    holder = await instance(store)
    await running(store, "a", by=holder)
    await submitted(store, "b")
    await submitted(store, "b", on_conflict=OnConflict.ENQUEUE)
    await submitted(store, "c", lane="cron")
    main, cron = await lane_view(store), await lane_view(store, "cron")
    assert (main.held_count, main.queued_count) == (1, 2)
    assert (cron.held_count, cron.queued_count) == (0, 1)


@pytest.mark.proves("I19")
@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_the_oldest_come_first_for_retention(store: SqlStore, limit: int) -> None:
    run_ids = [await submitted(store, f"key-{number}") for number in range(3)]
    found: list[RunId] = []
    after_seq = 0
    while runs := await store.runs.oldest_runs(after_seq=after_seq, limit=limit):
        assert len(runs) <= limit
        found += [run.id for run in runs]
        after_seq = runs[-1].seq
    assert found == run_ids
