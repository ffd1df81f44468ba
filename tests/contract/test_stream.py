"""One stream: seq is 1, 2, 3 … in commit order (I13), with one event per change (R2.7, I12)."""

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.report import AppendEvents, JobEvent, SaveProgress
from headway.core.command.run.settle import Complete, Fail
from headway.core.errors import InvalidInput
from headway.core.ids import RunId
from headway.core.run.admission import OnConflict
from headway.core.run.events import Event, EventType
from headway.core.run.run import RunRecord
from headway.core.run.transitions import TRANSITIONS
from headway.testing import a_claim, a_submit, an_error, claim_of, document
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_runs,
    raise_limit,
    read_events,
    read_record,
    register_instance,
    start_run,
    submit_run,
)

SERVERS = ("postgres", "mariadb", "postgres-several", "mariadb-several")
MOVES = {(source, end) for edges in TRANSITIONS.values() for source, end in edges.items()}


async def run_mixed_commands(store: SqlStore, name: str) -> None:
    """Apply a mix of commands, on keys of their own."""
    holder = await register_instance(store)
    for number in range(5):
        keys = [f"{name}-{number}-{n}" for n in range(4)]
        submits = [a_submit(key, on_conflict=OnConflict.ENQUEUE) for key in (*keys, keys[0])]
        await asyncio.gather(*(store.apply(submit) for submit in submits))
        await store.apply(RequestCancel(run_id=submits[1].run_id))
        runs = await claim_runs(store, a_claim(holder, count=3))
        for run in runs:
            claim = claim_of(run)
            await asyncio.gather(
                store.apply(AppendEvents(claim, (JobEvent("note", document("line")),))),
                store.apply(SaveProgress(claim, document({"n": number}))),
                store.apply(Fail(claim, an_error()) if number % 2 else Complete(claim)),
            )


def assert_consistent(runs: Sequence[RunRecord], stream: Sequence[Event]) -> None:
    """Check that the events contain exactly the states of the runs, each change once."""
    by_run: dict[RunId, list[Event]] = {}
    for event in stream:
        if event.run_id is not None:
            by_run.setdefault(event.run_id, []).append(event)
    for record in runs:
        run_events = by_run[record.run.id]
        assert [event.run_seq for event in run_events] == list(range(1, record.run.run_seq + 1))
        changes = [json.loads(e.payload) for e in run_events if e.type == EventType.STATE_CHANGED]
        path = [change["to"] for change in changes]
        assert [change["from"] for change in changes] == [None, *path[:-1]]
        assert set(pairwise(path)) <= {(str(a), str(b)) for a, b in MOVES}
        assert path[-1] == record.run.status


@pytest.mark.proves("R2.7", "I12")
async def test_every_state_change_has_exactly_one_event_in_its_transaction(
    store: SqlStore, another_store: SqlStore
) -> None:
    """At every read, states and events agree: neither is ahead of the other."""
    await raise_limit(store, 50)
    snapshots = []

    async def check_snapshots() -> None:
        for _ in range(15):
            snapshots.append(await store.runs.snapshot())  # noqa: PERF401 - Each is a look.

    await asyncio.gather(
        run_mixed_commands(store, "a"), run_mixed_commands(another_store, "b"), check_snapshots()
    )
    events_read = await read_events(store)
    for snapshot in snapshots:
        assert_consistent(snapshot.runs, [e for e in events_read if e.seq <= snapshot.seq])
    everything = {event.run_id for event in events_read if event.run_id is not None}
    assert_consistent([await read_record(store, run_id) for run_id in everything], events_read)


@pytest.mark.proves("I13")
async def test_seq_has_no_gap_with_several_writers(
    store: SqlStore, another_store: SqlStore
) -> None:
    await raise_limit(store, 50)
    await asyncio.gather(run_mixed_commands(store, "a"), run_mixed_commands(another_store, "b"))
    page = await store.events.events(after_seq=0, limit=100_000)
    assert [event.seq for event in page.events] == list(range(1, page.last_seq + 1))
    assert page.last_seq > 100


@pytest.mark.proves("I13")
@pytest.mark.parametrize("backend", SERVERS, indirect=True)
async def test_writers_of_different_keys_never_conflict(
    store: SqlStore, another_store: SqlStore
) -> None:
    """They wait for the counter in turn. Without its lock all would use the same number."""
    stores = (store, another_store)
    await asyncio.gather(*(stores[n % 2].apply(a_submit(f"key-{n}")) for n in range(200)))
    for number in range(50):  # One by one, so that every batch meets one of the other writer's.
        await asyncio.gather(*(each.apply(a_submit(f"{number}-{id(each)}")) for each in stores))
    assert [each.writer.conflict_count for each in stores] == [0, 0]
    page = await store.events.events(after_seq=0, limit=1000)
    assert [event.seq for event in page.events] == list(range(1, 301))


@pytest.mark.proves("I13")
async def test_snapshot_has_the_number_of_its_last_event_and_the_epoch(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    snapshot = await store.runs.snapshot()
    (stored,) = snapshot.runs
    (*_, last) = await read_events(store)
    assert snapshot.seq == last.seq
    assert snapshot.epoch == (await store.events.events(after_seq=0, limit=1)).epoch > 0
    assert (stored.run.id, stored.run.run_seq) == (run.run_id, last.run_seq)


@pytest.mark.proves("I13")
async def test_events_are_in_the_order_of_the_accepted_submissions(store: SqlStore) -> None:
    run_ids = [await submit_run(store, f"key-{number}") for number in range(5)]
    assert [event.run_id for event in await read_events(store)] == run_ids


@pytest.mark.proves("I13")
async def test_several_progress_reports_in_a_batch_become_one_event(store: SqlStore) -> None:
    """The last report counts, and neither `seq` nor `run_seq` has a gap."""
    claim = claim_of(await start_run(store))
    reports = [SaveProgress(claim, document({"n": n})) for n in range(10)]
    assert await apply_in_one_batch(store, *reports) == [True] * 10
    events_read = await read_events(store, claim.run_id)
    assert [(event.run_seq, event.type) for event in events_read[2:]] == [(3, EventType.PROGRESS)]
    assert events_read[-1].payload == '{"n":9}'
    stored = await read_record(store, claim.run_id)
    assert (stored.progress, stored.run.run_seq) == ('{"n":9}', 3)


@pytest.mark.proves("I13")
async def test_listener_receives_each_commit_of_its_store_in_order(store: SqlStore) -> None:
    received: list[int] = []
    stop = store.listen(lambda batch: received.extend(event.seq for event in batch))
    await asyncio.gather(*(store.apply(a_submit(f"key-{n}")) for n in range(20)))
    await submit_run(store, "last")
    stop()
    await submit_run(store, "unheard")
    assert received == list(range(1, 22))


@pytest.mark.proves("I15")
def test_job_cannot_emit_a_state_change() -> None:
    with pytest.raises(InvalidInput, match="type"):
        JobEvent(EventType.STATE_CHANGED, document({"from": "queued", "to": "failed"}))


@pytest.mark.proves("I16")
async def test_page_of_events_is_bounded_in_length_and_loses_nothing(store: SqlStore) -> None:
    """Short and long events in any order; one longer than a page comes alone."""
    claim = claim_of(await start_run(store))
    lengths = [10, 300, 513, 40_000, 10, 2_000, 90_000, 3, 3, *([20] * 40), 5_000, 512]
    job_events = tuple(JobEvent("note", document("ä" * length)) for length in lengths)
    await store.apply(AppendEvents(claim, job_events))
    whole = await store.events.events(after_seq=0, limit=1_000)
    assert not whole.has_more
    for run_id, limit in ((None, 1_000), (None, 5), (claim.run_id, 20)):
        collected: list[Event] = []
        has_more = True
        while has_more:
            after = collected[-1].seq if collected else 0
            page = await store.events.events(
                after_seq=after, limit=limit, length_max=10_000, run_id=run_id
            )
            length = sum(len(event.payload) for event in page.events)
            assert len(page.events) == 1 or (length <= 10_000 and len(page.events) <= limit)
            assert page.events or not page.has_more
            collected += page.events
            has_more = page.has_more
        assert collected == whole.events
