"""Reading: keyset lists, pages without gaps or repeats, snapshots of one instant (R1.10)."""

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
from headway.ports.run_reader import RunFilter, WatchedRun
from headway.testing import FakeClock, a_claim, a_submit, an_error, claim_of, document
from tests.contract.scenes import (
    bring_run_to,
    claim_runs,
    raise_limit,
    read_lane,
    register_instance,
    start_run,
    submit_run,
)

ALL = RunFilter()


async def pages(store: SqlStore, run_filter: RunFilter, *, limit: int) -> list[list[RunId]]:
    collected: list[list[RunId]] = []
    before_seq = None
    while True:
        reading = store.runs.list_runs(run_filter, limit=limit, before_seq=before_seq)
        page = [record async for record in reading]
        if not page:
            return collected
        collected.append([record.run.id for record in page])
        before_seq = page[-1].run.seq


@pytest.mark.proves("R1.10")
async def test_runs_are_listed_in_pages_newest_first(store: SqlStore) -> None:
    run_ids = [await submit_run(store, f"key-{number}") for number in range(7)]
    run_ids.reverse()
    rows = await pages(store, ALL, limit=3)
    assert rows == [run_ids[:3], run_ids[3:6], run_ids[6:]]


@pytest.mark.proves("R7.11")
async def test_traceback_of_the_last_failed_attempt_is_returned_only_for_a_single_run(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    await store.apply(Retry(claim_of(run), an_error(), 0.0, "Traceback: the first"))
    stored = await store.runs.run(run.run_id)
    assert stored is not None
    assert stored.traceback == "Traceback: the first"
    again = (await claim_runs(store, a_claim(await register_instance(store))))[0]
    await store.apply(Fail(claim_of(again), an_error(), "Traceback: the second\n\tat the end"))
    stored = await store.runs.run(run.run_id)
    assert stored is not None
    assert stored.traceback == "Traceback: the second\n\tat the end"
    assert [record.traceback async for record in store.runs.list_runs(ALL, limit=9)] == [None]
    page = await store.events.events(after_seq=0, limit=99)
    assert not [event for event in page.events if "Traceback" in event.payload]


@pytest.mark.proves("R1.10")
async def test_run_has_the_time_of_its_last_change(store: SqlStore, clock: FakeClock) -> None:
    run = await start_run(store)
    for write in (
        SaveProgress(claim_of(run), document({"n": 1})),
        ReleaseSlot(claim_of(run)),
        Complete(claim_of(run)),
    ):
        clock.advance(1)
        await store.apply(write)
        stored = await store.runs.run(run.run_id)
        assert stored is not None
        assert stored.run.updated_at == clock()


@pytest.mark.proves("R1.10")
async def test_runs_added_during_paging_neither_repeat_nor_hide_others(
    store: SqlStore,
) -> None:
    run_ids = [await submit_run(store, f"key-{number}") for number in range(9)]
    run_ids.reverse()
    collected: list[RunId] = []
    before_seq = None
    while len(collected) < len(run_ids):
        page = [
            record async for record in store.runs.list_runs(ALL, limit=2, before_seq=before_seq)
        ]
        collected += [record.run.id for record in page]
        before_seq = page[-1].run.seq
        await submit_run(store, f"new-{len(collected)}")
    assert collected == run_ids


@pytest.mark.proves("I20")
@pytest.mark.parametrize("statuses", [(), ("queued", "canceled")])
async def test_runs_are_read_in_chunks(store: SqlStore, statuses: Sequence[str]) -> None:
    """A run that changes during the read is returned exactly once; new runs are not included."""
    run_ids = [await submit_run(store, f"key-{number}") for number in range(40)]
    run_ids.reverse()
    run_filter = RunFilter(statuses=frozenset(map(RunStatus, statuses)))
    for limit in (1, 16, 17, 39, 99):
        (first, *_) = await pages(store, run_filter, limit=limit)
        assert first == run_ids[:limit]
    reading = store.runs.list_runs(run_filter, limit=40)
    rows = [await anext(reading)]
    for run_id in (run_ids[0], run_ids[5], run_ids[30]):
        assert await store.apply(RequestCancel(run_id=run_id)) is CancelResult.CANCELED
    await submit_run(store, "new")
    rows += [record async for record in reading]
    assert [record.run.id for record in rows] == run_ids
    assert rows[5].run.status is RunStatus.QUEUED
    assert rows[30].run.status is RunStatus.CANCELED  # The run was not in the chunk read before.


@pytest.mark.proves("R1.10")
async def test_list_of_runs_can_be_filtered(store: SqlStore, clock: FakeClock) -> None:
    run = await start_run(store, "ann", job="fetch", lane="slow")
    await store.apply(Complete(claim_of(run)))
    queued = await submit_run(store, "ann", job="fetch", lane="slow")
    other = await submit_run(store, "bob", job="mirror")
    timed_out = (await bring_run_to(store, clock, RunStatus.TIMED_OUT, key="carl")).run_id

    async def list_ids(**filters: object) -> set[RunId]:
        (page,) = await pages(store, RunFilter(**filters), limit=10)  # type: ignore[arg-type]
        return set(page)

    assert await list_ids(key=Key("ann")) == {run.run_id, queued}
    assert await list_ids(lane=LaneName("slow")) == {run.run_id, queued}
    assert await list_ids(job="mirror") == {other, timed_out}
    assert await list_ids(statuses=frozenset({RunStatus.QUEUED})) == {queued, other}
    ended = frozenset({RunStatus.SUCCEEDED, RunStatus.TIMED_OUT})
    assert await list_ids(statuses=ended) == {run.run_id, timed_out}
    assert await list_ids(key=Key("ann"), statuses=ended) == {run.run_id}
    assert await pages(store, RunFilter(key=Key("nobody")), limit=10) == []


@pytest.mark.proves("I8")
async def test_many_runs_are_checked_in_chunks(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_runs, "_ID_CHUNK_COUNT", 2)
    mine, others = await register_instance(store), await register_instance(store)
    held = [await start_run(store, key, lane=key, by=mine) for key in "abc"]
    aside = await start_run(store, "d", lane="d", by=others)
    queued = await submit_run(store, "e")
    requested = [*(run.run_id for run in held[:2]), aside.run_id, queued, RunId("none")]
    held_runs = await store.runs.filter_held_runs(mine, requested)
    assert {run.claim for run in held_runs} == {claim_of(run) for run in held[:2]}
    assert {run.status for run in held_runs} == {RunStatus.RUNNING}
    running = WatchedRun(2, RunStatus.RUNNING)
    assert await store.runs.watched_runs(requested) == {
        **dict.fromkeys(requested[:3], running),
        queued: WatchedRun(1, RunStatus.QUEUED),
    }
    await store.apply(Complete(claim_of(held[0])))
    assert await store.runs.filter_held_runs(mine, requested[:1]) == []
    ended = await store.runs.watched_runs(requested[:1])
    assert ended == {held[0].run_id: WatchedRun(3, RunStatus.SUCCEEDED)}


@pytest.mark.proves("R1.10")
async def test_reads_of_missing_rows_return_none_or_empty(store: SqlStore) -> None:
    assert await store.runs.run(RunId("none")) is None
    assert list(await store.runs.inbox(RunId("none"))) == []
    assert list(await store.runs.instances()) == []
    assert [run async for run in store.runs.keys(limit=10)] == []
    assert list(await store.runs.held_runs(InstanceId("none"), limit=10)) == []
    assert list(await store.runs.filter_held_runs(InstanceId("none"), [RunId("none")])) == []
    assert await store.runs.watched_runs([RunId("none")]) == {}
    assert list(await store.runs.oldest_runs(after_seq=0, limit=10)) == []
    snapshot = await store.runs.snapshot()
    assert (snapshot.seq, snapshot.runs, snapshot.keys) == (0, [], [])
    page = await store.events.events(after_seq=0, limit=10)
    assert (page.events, page.last_seq, page.pruned_seq) == ([], 0, 0)


@pytest.mark.proves("I14")
async def test_events_are_read_in_pages_without_gap_or_repeat(store: SqlStore) -> None:
    for number in range(5):
        await submit_run(store, f"key-{number}")
    collected: list[int] = []
    while True:
        page = await store.events.events(after_seq=collected[-1] if collected else 0, limit=2)
        if not page.events:
            break
        collected += [event.seq for event in page.events]
        if len(collected) == 2:
            await submit_run(store, "meanwhile")
    assert collected == list(range(1, 7))
    assert page.last_seq == 6


@pytest.mark.proves("I14")
async def test_seq_of_the_events_of_one_run_increases_with_gaps(store: SqlStore) -> None:
    holder = await register_instance(store)
    runs = [await start_run(store, f"key-{number}", by=holder) for number in range(2)]
    for run in runs:
        await store.apply(Complete(claim_of(run)))
    page = await store.events.events(after_seq=0, limit=100, run_id=runs[0].run_id)
    assert [event.run_seq for event in page.events] == [1, 2, 3]
    assert [event.seq for event in page.events] == [1, 2, 5]
    assert page.last_seq == 6
    rest = await store.events.events(after_seq=2, limit=100, run_id=runs[0].run_id)
    assert [event.seq for event in rest.events] == [5]


@pytest.mark.proves("I13")
async def test_snapshot_shows_active_runs_and_the_rows_of_keys(
    store: SqlStore, clock: FakeClock
) -> None:
    await store.apply(SaveKey(key=Key("zoe"), job="mirror"))
    for status in (RunStatus.SUCCEEDED, RunStatus.REJECTED, RunStatus.CANCELED):
        await bring_run_to(store, clock, status, key=f"key of {status}", lane=status)
    run = await start_run(store, "ann", lane="wide")
    behind = await submit_run(store, "ann", lane="wide", on_conflict=OnConflict.ENQUEUE)
    snapshot = await store.runs.snapshot()
    active = [record.run.id for record in snapshot.runs]
    assert active[1:] == [
        run.run_id,
        behind,
    ]  # The first is the run that kept the rejected one out.
    assert [row.key for row in snapshot.keys] == ["zoe"]
    wide = next(view for view in snapshot.lanes if view.lane.name == "wide")
    assert (wide.held_count, wide.queued_count) == (1, 1)


@pytest.mark.proves("I13")
async def test_snapshot_shows_one_instant(store: SqlStore, another_store: SqlStore) -> None:
    """The counts in a snapshot always match the runs in the same snapshot."""
    await raise_limit(store, 5)
    holder = await register_instance(store)
    snapshots = []

    async def work() -> None:
        for number in range(15):
            submits = (a_submit(f"{number}-{n}") for n in range(4))
            await asyncio.gather(*(another_store.apply(submit) for submit in submits))
            for run in await claim_runs(another_store, a_claim(holder, count=5)):
                await another_store.apply(Complete(claim_of(run)))

    async def read_snapshots() -> None:
        for _ in range(20):
            snapshots.append(await store.runs.snapshot())  # noqa: PERF401 - Each is a look.

    await asyncio.gather(work(), read_snapshots())
    for snapshot in snapshots:
        (main,) = (view for view in snapshot.lanes if view.lane.name == "main")
        states = [record.run for record in snapshot.runs]
        assert main.held_count == sum(run.slot == "main" for run in states)
        assert main.queued_count == sum(run.status is RunStatus.QUEUED for run in states)
        assert all(run.seq <= snapshot.seq for run in states)


@pytest.mark.proves("I20")
async def test_rows_of_keys_are_read_in_chunks(store: SqlStore) -> None:
    names = [f"key-{number:02}" for number in range(40)]
    for name in names:
        await store.apply(SaveKey(key=Key(name), job="mirror"))
    for limit in (1, 16, 17, 39, 99):
        assert [row.key async for row in store.runs.keys(limit=limit)] == names[:limit]
    reading = store.runs.keys(limit=99)
    rows = [await anext(reading)]
    for name in names[5], names[30]:
        await store.apply(SaveKey(key=Key(name), job="other"))
    rows += [row async for row in reading]
    assert [row.key for row in rows] == names
    assert (rows[5].job, rows[30].job) == (
        "mirror",
        "other",
    )  # The other row was not in the chunk read before.


@pytest.mark.proves("R1.10")
async def test_rows_of_keys_are_read_in_pages(store: SqlStore) -> None:
    names = [f"key-{number}" for number in range(5)]
    for name in reversed(names):
        await store.apply(SaveKey(key=Key(name), job="mirror"))
    first = [run async for run in store.runs.keys(limit=3)]
    rest = [run async for run in store.runs.keys(limit=3, after=first[-1].key)]
    assert [row.key for row in (*first, *rest)] == names


@pytest.mark.proves("R1.10")
async def test_lanes_show_held_slots_and_waiting_runs(store: SqlStore) -> None:
    holder = await register_instance(store)
    await start_run(store, "a", by=holder)
    await submit_run(store, "b")
    await submit_run(store, "b", on_conflict=OnConflict.ENQUEUE)
    await submit_run(store, "c", lane="cron")
    main, cron = await read_lane(store), await read_lane(store, "cron")
    assert (main.held_count, main.queued_count) == (1, 2)
    assert (cron.held_count, cron.queued_count) == (0, 1)


@pytest.mark.proves("I19")
@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_runs_are_read_oldest_first_for_retention(store: SqlStore, limit: int) -> None:
    run_ids = [await submit_run(store, f"key-{number}") for number in range(3)]
    collected: list[RunId] = []
    after_seq = 0
    while runs := await store.runs.oldest_runs(after_seq=after_seq, limit=limit):
        assert len(runs) <= limit
        collected += [run.id for run in runs]
        after_seq = runs[-1].seq
    assert collected == run_ids
