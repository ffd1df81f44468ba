"""One stream for all: seq is 1, 2, 3 … in commit order (I13), an event per change (R2.7, I12)."""

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
    claimed,
    events,
    instance,
    raise_limit,
    record,
    running,
    submitted,
    together,
)

SERVERS = ("postgres", "mariadb", "postgres-several", "mariadb-several")
MOVES = {(source, end) for edges in TRANSITIONS.values() for source, end in edges.items()}


async def busy_life(store: SqlStore, name: str) -> None:
    """A little of everything, over keys of its own."""
    holder = await instance(store)
    for number in range(5):
        keys = [f"{name}-{number}-{n}" for n in range(4)]
        submits = [a_submit(key, on_conflict=OnConflict.ENQUEUE) for key in (*keys, keys[0])]
        await asyncio.gather(*(store.apply(submit) for submit in submits))
        await store.apply(RequestCancel(run_id=submits[1].run_id))
        ones = await claimed(store, a_claim(holder, count=3))
        for one in ones:
            claim = claim_of(one)
            await asyncio.gather(
                store.apply(AppendEvents(claim, (JobEvent("run_log", document("line")),))),
                store.apply(SaveProgress(claim, document({"n": number}))),
                store.apply(Fail(claim, an_error()) if number % 2 else Complete(claim)),
            )


def assert_consistent(runs: Sequence[RunRecord], seen: Sequence[Event]) -> None:
    """The events tell exactly the states that the runs are in, each change once."""
    by_run: dict[RunId, list[Event]] = {}
    for event in seen:
        if event.run_id is not None:
            by_run.setdefault(event.run_id, []).append(event)
    for kept in runs:
        told = by_run[kept.run.id]
        assert [event.run_seq for event in told] == list(range(1, kept.run.run_seq + 1))
        changes = [json.loads(e.payload) for e in told if e.type == EventType.STATE_CHANGED]
        path = [change["to"] for change in changes]
        assert [change["from"] for change in changes] == [None, *path[:-1]]
        assert set(pairwise(path)) <= {(str(a), str(b)) for a, b in MOVES}
        assert path[-1] == kept.run.status


@pytest.mark.proves("R2.7", "I12")
async def test_every_state_change_has_exactly_one_event_in_its_transaction(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Whenever one looks, states and events agree: neither is ever ahead of the other."""
    await raise_limit(store, 50)
    snapshots = []

    async def look() -> None:
        for _ in range(15):
            snapshots.append(await store.runs.snapshot())  # noqa: PERF401 - Each is a look.

    await asyncio.gather(busy_life(store, "a"), busy_life(another_store, "b"), look())
    seen = await events(store)
    for snapshot in snapshots:
        assert_consistent(snapshot.runs, [e for e in seen if e.seq <= snapshot.seq])
    everything = {event.run_id for event in seen if event.run_id is not None}
    assert_consistent([await record(store, run_id) for run_id in everything], seen)


@pytest.mark.proves("I13")
async def test_seq_has_no_gap_though_several_write(
    store: SqlStore, another_store: SqlStore
) -> None:
    await raise_limit(store, 50)
    await asyncio.gather(busy_life(store, "a"), busy_life(another_store, "b"))
    page = await store.events.events(after_seq=0, limit=100_000)
    assert [event.seq for event in page.events] == list(range(1, page.last_seq + 1))
    assert page.last_seq > 100


@pytest.mark.proves("I13")
@pytest.mark.parametrize("backend", SERVERS, indirect=True)
async def test_writers_of_different_keys_never_conflict(
    store: SqlStore, another_store: SqlStore
) -> None:
    """They wait for the counter in turn. Without its lock they would all decide on one number."""
    stores = (store, another_store)
    await asyncio.gather(*(stores[n % 2].apply(a_submit(f"key-{n}")) for n in range(200)))
    for number in range(50):  # One by one, so that every batch meets one of the other writer's.
        await asyncio.gather(*(each.apply(a_submit(f"{number}-{id(each)}")) for each in stores))
    assert [each.writer.conflict_count for each in stores] == [0, 0]
    page = await store.events.events(after_seq=0, limit=1000)
    assert [event.seq for event in page.events] == list(range(1, 301))


@pytest.mark.proves("I13")
async def test_a_snapshot_carries_the_seq_that_it_includes_and_its_epoch(
    store: SqlStore,
) -> None:
    one = await running(store)
    snapshot = await store.runs.snapshot()
    (kept,) = snapshot.runs
    (*_, last) = await events(store)
    assert snapshot.seq == last.seq
    assert snapshot.epoch == (await store.events.events(after_seq=0, limit=1)).epoch > 0
    assert (kept.run.id, kept.run.run_seq) == (one.run_id, last.run_seq)


@pytest.mark.proves("I13")
async def test_the_order_of_events_is_that_of_the_answers(store: SqlStore) -> None:
    run_ids = [await submitted(store, f"key-{number}") for number in range(5)]
    assert [event.run_id for event in await events(store)] == run_ids


@pytest.mark.proves("I13")
async def test_several_progress_reports_in_a_batch_become_one_event(store: SqlStore) -> None:
    """The last one counts; nothing is skipped in either numbering."""
    claim = claim_of(await running(store))
    reports = [SaveProgress(claim, document({"n": n})) for n in range(10)]
    assert await together(store, *reports) == [True] * 10
    seen = await events(store, claim.run_id)
    assert [(event.run_seq, event.type) for event in seen[2:]] == [(3, EventType.PROGRESS)]
    assert seen[-1].payload == '{"n":9}'
    kept = await record(store, claim.run_id)
    assert (kept.progress, kept.run.run_seq) == ('{"n":9}', 3)


@pytest.mark.proves("I13")
async def test_a_listener_hears_each_commit_of_its_store_in_order(store: SqlStore) -> None:
    heard: list[int] = []
    stop = store.listen(lambda batch: heard.extend(event.seq for event in batch))
    await asyncio.gather(*(store.apply(a_submit(f"key-{n}")) for n in range(20)))
    await submitted(store, "last")
    stop()
    await submitted(store, "unheard")
    assert heard == list(range(1, 22))


@pytest.mark.proves("I15")
def test_a_job_cannot_tell_a_change_of_state_that_was_none() -> None:
    with pytest.raises(InvalidInput, match="type"):
        JobEvent(EventType.STATE_CHANGED, document({"from": "queued", "to": "failed"}))


@pytest.mark.proves("I16")
async def test_a_page_is_bounded_in_length_and_pages_lose_nothing(store: SqlStore) -> None:
    """Short and long ones in any order; one that is longer than a page comes alone."""
    claim = claim_of(await running(store))
    lengths = [10, 300, 513, 40_000, 10, 2_000, 90_000, 3, 3, *([20] * 40), 5_000, 512]
    said = tuple(JobEvent("told", document("ä" * length)) for length in lengths)
    await store.apply(AppendEvents(claim, said))
    whole = await store.events.events(after_seq=0, limit=1_000)
    assert not whole.has_more
    for run_id, limit in ((None, 1_000), (None, 5), (claim.run_id, 20)):
        seen: list[Event] = []
        has_more = True
        while has_more:
            after = seen[-1].seq if seen else 0
            page = await store.events.events(
                after_seq=after, limit=limit, length_max=10_000, run_id=run_id
            )
            length = sum(len(event.payload) for event in page.events)
            assert len(page.events) == 1 or (length <= 10_000 and len(page.events) <= limit)
            assert page.events or not page.has_more
            seen += page.events
            has_more = page.has_more
        assert seen == whole.events
