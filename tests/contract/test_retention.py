"""Retention removes old ended rows, a few at a time, and nothing else (I19)."""

import pytest
import sqlalchemy as sa

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.statements import Insert
from headway.adapters.sql.tables import events as stream_events
from headway.adapters.sql.tables import runs, stream, writers
from headway.core.command.admin.prune import PruneEvents, PruneIdempotencyKeys, PruneRuns
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.idempotency import Repeated
from headway.core.command.run.report import SaveCheckpoint
from headway.core.command.run.settle import Complete
from headway.core.command.run.submit import Accepted
from headway.core.ids import Instant, RunId, add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.run import RunMode
from headway.core.run.status import RunStatus
from headway.core.run.transitions import ACTIVE, TERMINAL
from headway.services.upkeep.pruner import BATCH_SIZE, DAY_S, Pruner, Retention
from headway.testing import FakeClock, a_claim, a_message, a_submit, claim_of, document
from tests.contract.backends import DatabaseTarget, open_link, open_second_store, read_all
from tests.contract.scenes import (
    apply_in_one_batch,
    bring_run_to,
    claim_run,
    read_events,
    read_run,
    register_instance,
    start_run,
    submit_run,
)


async def end_run(store: SqlStore, key: str = "ann") -> RunId:
    run = await start_run(store, key)
    await store.apply(a_message(run.run_id))
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 3})))
    await store.apply(Complete(claim_of(run)))
    return run.run_id


@pytest.mark.proves("I19")
async def test_old_ended_runs_are_removed_with_their_inbox(
    store: SqlStore, clock: FakeClock
) -> None:
    old = await end_run(store, "old")
    clock.advance(100)
    young = await end_run(store, "young")
    pruning = PruneRuns((old, young, RunId("none")), ended_before=clock())
    assert await store.apply(pruning) == 1
    assert await store.runs.run(old) is None
    assert await store.runs.run(young) is not None
    assert list(await store.runs.inbox(old)) == []
    assert len(await store.runs.inbox(young)) == 1
    assert await store.apply(pruning) == 0
    # The stream has no gap: its events are removed by age, from the beginning.
    assert len(await read_events(store, old)) > 0


@pytest.mark.proves("I3")
@pytest.mark.parametrize("status", sorted(ACTIVE), ids=str)
async def test_active_runs_are_never_removed(
    store: SqlStore, clock: FakeClock, status: RunStatus
) -> None:
    run = await bring_run_to(store, clock, status)
    clock.advance(1e6)
    before = await read_all(store)
    assert await store.apply(PruneRuns((run.run_id,), ended_before=clock())) == 0
    assert await read_all(store) == before


@pytest.mark.proves("I19")
@pytest.mark.parametrize("status", sorted(TERMINAL - {RunStatus.REJECTED}), ids=str)
async def test_ended_runs_of_every_status_are_removed(
    store: SqlStore, clock: FakeClock, status: RunStatus
) -> None:
    run = await bring_run_to(store, clock, status)
    clock.advance(1)
    assert await store.apply(PruneRuns((run.run_id,), ended_before=clock())) == 1


@pytest.mark.proves("I3")
async def test_pruning_keeps_the_run_that_a_busy_key_may_continue(
    store: SqlStore, clock: FakeClock
) -> None:
    old = await end_run(store)
    clock.advance(100)
    await submit_run(store, mode=RunMode.CONTINUE)
    pruning = PruneRuns((old,), ended_before=clock())
    assert await store.apply(pruning) == 0
    run = await claim_run(store, await register_instance(store))
    assert run.checkpoint == '{"page":3}'
    await store.apply(Complete(claim_of(run)))
    assert await store.apply(pruning) == 1


@pytest.mark.proves("I19")
async def test_pruning_keeps_only_the_run_of_a_busy_key_that_may_be_continued(
    store: SqlStore, clock: FakeClock
) -> None:
    old = [await end_run(store) for _ in range(3)]
    instance_id = await register_instance(store)
    head = await submit_run(store)
    in_queue = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    await store.apply(RequestCancel(run_id=in_queue))
    await submit_run(store, on_conflict=OnConflict.ENQUEUE, mode=RunMode.CONTINUE)
    clock.advance(100)
    pruning = PruneRuns((*old, in_queue), ended_before=clock())
    assert await store.apply(pruning) == 3
    assert await store.runs.run(old[-1]) is not None
    # The head ends without having started, so the run behind it continues from the last started.
    await store.apply(RequestCancel(run_id=head))
    assert (await claim_run(store, instance_id)).checkpoint == '{"page":3}'
    # From now on this is the run to continue.
    assert await store.apply(pruning) == 1


@pytest.mark.proves("I19")
@pytest.mark.parametrize("has_started", [False, True])
async def test_older_runs_of_a_busy_key_are_removed(
    store: SqlStore, clock: FakeClock, has_started: bool
) -> None:
    """This holds even if the run to continue is not among the runs to prune."""
    older = [await end_run(store) for _ in range(2)]
    newest = await end_run(store)
    instance_id = await register_instance(store)
    await submit_run(store)
    if has_started:
        await claim_run(store, instance_id)
    await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    clock.advance(100)
    assert await store.apply(PruneRuns(tuple(older), ended_before=clock())) == 2
    count = await store.apply(PruneRuns((newest,), ended_before=clock()))
    assert count == (1 if has_started else 0)


@pytest.mark.proves("I3")
async def test_run_that_was_pruned_earlier_in_the_batch_cannot_be_continued(
    store: SqlStore, clock: FakeClock
) -> None:
    """The key becomes busy between two prunings, so the second keeps its newest remaining run."""
    first, second, third = [await end_run(store) for _ in range(3)]
    clock.advance(100)
    prunings = [PruneRuns(ids, ended_before=clock()) for ids in ((third,), (first, second))]
    counts = await apply_in_one_batch(
        store, prunings[0], a_submit(mode=RunMode.CONTINUE), prunings[1]
    )
    assert (counts[0], counts[2]) == (1, 1)
    assert await store.runs.run(second) is not None


@pytest.mark.proves("I3")
async def test_continue_does_not_use_a_run_that_was_pruned_earlier_in_its_batch(
    store: SqlStore, clock: FakeClock
) -> None:
    """The pruned run is not its predecessor, as if Continue had come in a later batch."""
    old = await end_run(store)
    clock.advance(100)
    count, accepted = await apply_in_one_batch(
        store, PruneRuns((old,), ended_before=clock()), a_submit(mode=RunMode.CONTINUE)
    )
    assert (count, isinstance(accepted, Accepted)) == (1, True)
    assert (await read_run(store, accepted.run_id)).continued_from is None


@pytest.mark.proves("I3")
async def test_pruning_finds_a_key_busy_after_a_continue_earlier_in_its_batch(
    store: SqlStore, clock: FakeClock
) -> None:
    old = await end_run(store)
    clock.advance(100)
    _, count = await apply_in_one_batch(
        store, a_submit(mode=RunMode.CONTINUE), PruneRuns((old,), ended_before=clock())
    )
    assert count == 0
    assert (await claim_run(store, await register_instance(store))).checkpoint == '{"page":3}'


@pytest.mark.proves("I14")
async def test_pruned_stream_reports_up_to_which_event_it_was_pruned(store: SqlStore) -> None:
    for number in range(6):
        await submit_run(store, f"key-{number}")
    await store.apply(PruneEvents(4))
    page = await store.events.events(after_seq=0, limit=100)
    assert ([event.seq for event in page.events], page.last_seq, page.pruned_seq) == ([5, 6], 6, 4)
    # The numbering continues.
    accepted = await store.apply(a_submit("next"))
    assert isinstance(accepted, Accepted)
    assert accepted.seq == 7


@pytest.mark.proves("I14")
async def test_pruned_position_never_decreases(store: SqlStore) -> None:
    """A late command to prune less must not report pruned events as present."""
    for number in range(6):
        await submit_run(store, f"key-{number}")
    await store.apply(PruneEvents(4))
    await store.apply(PruneEvents(2))
    await apply_in_one_batch(store, PruneEvents(5), PruneEvents(3))
    page = await store.events.events(after_seq=0, limit=100)
    assert ([event.seq for event in page.events], page.pruned_seq) == ([6], 5)


@pytest.mark.proves("I13")
async def test_pruning_beyond_the_last_event_removes_only_existing_events(store: SqlStore) -> None:
    await submit_run(store)
    await store.apply(PruneEvents(1000))
    page = await store.events.events(after_seq=0, limit=100)
    assert (page.events, page.last_seq, page.pruned_seq) == ([], 1, 1)
    await submit_run(store, "next")
    page = await store.events.events(after_seq=1, limit=100)
    assert [event.seq for event in page.events] == [2]


@pytest.mark.proves("I13")
async def test_events_written_in_the_same_batch_are_not_pruned(store: SqlStore) -> None:
    await submit_run(store, "first")
    await apply_in_one_batch(store, PruneEvents(1000), a_submit("second"))
    page = await store.events.events(after_seq=0, limit=100)
    assert ([event.seq for event in page.events], page.pruned_seq) == ([2], 1)


@pytest.mark.proves("I6")
async def test_idempotency_key_can_be_used_again_after_its_retention(
    store: SqlStore, clock: FakeClock
) -> None:
    first = await submit_run(store, "a", idempotency_key="old")
    clock.advance(10)
    middle = clock()
    clock.advance(10)
    second = await submit_run(store, "b", idempotency_key="young")
    old = await store.runs.oldest_idempotency_keys(before=middle, limit=10)
    assert await store.apply(PruneIdempotencyKeys(tuple(old), recorded_before=middle)) == 1
    again = await store.apply(a_submit("b", idempotency_key="young"))
    assert again == Repeated(second)
    forgotten = a_submit("a", idempotency_key="old", on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(forgotten) != Repeated(first)


@pytest.mark.proves("I6")
async def test_only_old_idempotency_keys_are_pruned_and_counted_once(
    store: SqlStore, clock: FakeClock
) -> None:
    await submit_run(store, "a", idempotency_key="old")
    start = clock()
    clock.advance(10)
    answers = await apply_in_one_batch(
        store,
        PruneIdempotencyKeys(("old",), recorded_before=add_seconds(start, seconds=-9)),
        PruneIdempotencyKeys(("old", "unknown"), recorded_before=clock()),
        PruneIdempotencyKeys(("old",), recorded_before=clock()),
    )
    assert answers == [0, 1, 0]
    assert (await read_all(store))["idempotency_keys"] == []


@pytest.mark.proves("I19")
async def test_oldest_idempotency_keys_are_read_up_to_a_limit(
    store: SqlStore, clock: FakeClock
) -> None:
    for name in ("third", "first", "second"):
        await submit_run(store, name, idempotency_key=name)
        clock.advance(1)
    assert await store.runs.oldest_idempotency_keys(before=clock(), limit=2) == ["third", "first"]
    assert await store.runs.oldest_idempotency_keys(before=Instant(0), limit=2) == []


@pytest.mark.proves("I6")
async def test_pruned_idempotency_key_can_be_used_again_in_the_same_batch(
    store: SqlStore, clock: FakeClock
) -> None:
    await submit_run(store, "a", idempotency_key="once")
    clock.advance(10)
    _, accepted, repeated = await apply_in_one_batch(
        store,
        PruneIdempotencyKeys(("once",), recorded_before=clock()),
        a_submit("b", idempotency_key="once"),
        a_submit("b", idempotency_key="once"),
    )
    assert isinstance(accepted, Accepted)
    assert repeated == Repeated(accepted.run_id)
    clock.advance(10)
    again = await store.apply(a_submit("b", idempotency_key="once"))
    assert again == Repeated(accepted.run_id)


@pytest.mark.proves("I19")
async def test_rows_of_dead_writers_are_removed(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock
) -> None:
    hour_s = 3_600.0
    rows = [
        ("gone", 7, add_seconds(clock(), seconds=-25 * hour_s)),
        ("silent", 7, add_seconds(clock(), seconds=-23 * hour_s)),
    ]
    async with open_link(store, target) as link:
        await link.begin()
        await link.write(Insert(writers, ("id", "batch", "seen_at")), rows)
        await link.commit()
    async with open_second_store(store, target, clock), store._database.open_session() as session:
        result = await session.execute(sa.select(writers.c.id))
        assert {"gone", "silent"} & set(result.scalars()) == {"silent"}


@pytest.mark.proves("I8")
async def test_closed_store_leaves_no_row_of_its_writer(
    store: SqlStore, another_store: SqlStore
) -> None:
    await submit_run(another_store)
    await store.apply(a_claim(await register_instance(store)))
    async with store._database.open_session() as session:
        rows = await session.exec_driver_sql("SELECT COUNT(*) FROM writers")
        assert rows.scalar_one() == 2
    await another_store.writer.close()
    async with store._database.open_session() as session:
        rows = await session.exec_driver_sql("SELECT COUNT(*) FROM writers")
        assert rows.scalar_one() == 1


async def add_copies(store: SqlStore, run_id: RunId, count: int) -> None:
    """Add `count` runs that ended as `run_id` did, each with an event of its own."""
    async with store._database.open_session() as connection:
        (row,) = (await connection.execute(sa.select(*runs.c).where(runs.c.id == run_id))).all()
        event = (await connection.execute(sa.select(*stream_events.c).limit(1))).one()
        seq = int(await connection.scalar(sa.select(stream.c.seq)) or 0)
        numbers = range(1, count + 1)
        old = [
            {**row._mapping, "id": f"{number:036}", "key": f"key-{number}", "seq": seq + number}
            for number in numbers
        ]
        events_of_old = [
            {**event._mapping, "seq": seq + number, "run_id": f"{number:036}"} for number in numbers
        ]
        await connection.execute(sa.insert(runs), old)
        await connection.execute(sa.insert(stream_events), events_of_old)
        await connection.execute(sa.update(stream).values(seq=seq + count))
        await connection.commit()


@pytest.mark.proves("I19")
async def test_one_round_removes_a_backlog_of_12_000_runs_and_events(
    store: SqlStore, clock: FakeClock
) -> None:
    """With a fixed number of batches per round, a busy engine added more than was removed."""
    await add_copies(store, await end_run(store), 12_000)
    clock.advance(31 * DAY_S)
    keeper = Pruner(store, store.runs, store.events, store.workers, Retention())
    removed = await keeper.prune()
    assert removed.run_count == 12_001
    assert removed.event_count > 12_000
    assert await store.runs.oldest_runs(after_seq=0, limit=1) == []
    page = await store.events.events(after_seq=0, limit=1)
    assert (page.events, page.pruned_seq) == ([], page.last_seq)


@pytest.mark.proves("I19")
async def test_one_round_removes_a_backlog_if_one_run_of_each_batch_must_stay(
    store: SqlStore, clock: FakeClock
) -> None:
    await add_copies(store, await end_run(store), 12_000)
    clock.advance(31 * DAY_S)
    async with (
        store._database.open_session() as connection
    ):  # Accepted long ago, and ended just now.
        young = sa.update(runs).where(runs.c.seq % BATCH_SIZE == 0).values(ended_at=clock())
        await connection.execute(young)
        await connection.commit()
    keeper = Pruner(store, store.runs, store.events, store.workers, Retention())
    stay_count = 12_000 // BATCH_SIZE
    assert (await keeper.prune()).run_count == 12_001 - stay_count
    remaining = await store.runs.oldest_runs(after_seq=0, limit=BATCH_SIZE)
    assert [run.ended_at for run in remaining] == [clock()] * stay_count


@pytest.mark.proves("I19")
async def test_pruning_round_ends_early_when_its_engine_stops(
    store: SqlStore, clock: FakeClock
) -> None:
    await add_copies(store, await end_run(store), 1_000)
    clock.advance(31 * DAY_S)
    keeper = Pruner(store, store.runs, store.events, store.workers, Retention())
    assert (await keeper.prune(lambda: True)).run_count == BATCH_SIZE
    assert (await keeper.prune()).run_count == 1_001 - BATCH_SIZE
