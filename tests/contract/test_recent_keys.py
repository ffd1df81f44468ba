"""The recent keys of a snapshot equal those that a fold of the events gives (R1.10)."""

import random
from collections.abc import Sequence

import pytest

from headway.adapters.sql.read import read_recent
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.prune import PruneRuns
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.settle import Complete, Fail
from headway.core.command.run.submit import Accepted
from headway.core.ids import RunId
from headway.core.run import recent
from headway.core.run.admission import OnConflict
from headway.core.run.events import Event, EventType
from headway.testing import FakeClock, a_claim, a_submit, claim_of, document
from tests.contract.scenes import (
    claim_runs,
    raise_limit,
    read_events,
    register_instance,
    start_run,
    submit_run,
)


def fold(stream: Sequence[Event]) -> list[tuple[str, int]]:
    """Return the keys that a page lists after these events, the newest first."""
    newest: dict[str, int] = {}
    numbers: dict[str, int] = {}
    after_seq = 0
    for event in stream:
        after_seq = recent.recent_after_seq(event.seq)
        if event.type != EventType.STATE_CHANGED or event.run_id is None:
            continue
        seq = numbers.setdefault(event.run_id, event.seq)
        if '"to":"rejected"' in event.payload.replace(" ", ""):
            continue
        key = event.key or event.run_id
        if seq > after_seq:
            newest[key] = max(seq, newest.get(key, 0))
        newest = {key: seq for key, seq in newest.items() if seq > after_seq}
        ranked = sorted(newest.items(), key=lambda entry: -entry[1])
        newest = dict(ranked[: recent.KEY_COUNT_MAX])
    remaining = [(key, seq) for key, seq in newest.items() if seq > after_seq]
    return sorted(remaining, key=lambda entry: -entry[1])


@pytest.mark.proves("R1.10")
async def test_snapshot_has_ended_runs_of_keys_that_are_not_saved(store: SqlStore) -> None:
    done = await start_run(store, "done")
    await store.apply(Complete(claim_of(done)))
    failed = await start_run(store, "failed")
    await store.apply(Fail(claim_of(failed), error=document({"message": "no"})))
    canceled = await submit_run(store, "failed")
    await store.apply(RequestCancel(run_id=canceled))
    keyless = await submit_run(store, "own-id", run_id="own-id")
    snapshot = await store.runs.snapshot()
    assert [recent_key.key for recent_key in snapshot.recent_keys] == [keyless, "failed", "done"]
    assert not snapshot.has_older_keys
    # If the last run of a key never started, the run before it is included for its counts (R1.12).
    last_ids = {record.run.id for record in snapshot.last_runs}
    assert last_ids == {done.run_id, failed.run_id, canceled, keyless}


@pytest.mark.proves("R1.10")
@pytest.mark.parametrize("seed", range(3))
async def test_snapshot_lists_the_keys_that_a_follower_of_the_stream_lists(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(recent, "KEY_COUNT_MAX", 6)
    monkeypatch.setattr(recent, "EVENT_COUNT_MAX", 40)
    monkeypatch.setattr(recent, "EVENT_STEP", 8)
    monkeypatch.setattr(read_recent, "NEWEST_RUN_COUNT", 2)
    chance = random.Random(seed)
    instance_id = await register_instance(store)
    await raise_limit(store, 100)
    queued: list[RunId] = []
    for _ in range(60):
        keys = ["busy"] * 6 + [f"key-{number}" for number in range(12)]
        how = chance.choice([OnConflict.REJECT, OnConflict.ENQUEUE])
        command = a_submit(chance.choice(keys), on_conflict=how, is_unattended=True)
        answer = await store.apply(command)
        if isinstance(answer, Accepted):
            queued.append(answer.run_id)
        if queued and chance.random() < 0.3:
            await store.apply(RequestCancel(run_id=queued.pop()))
        if chance.random() < 0.5:
            for run in await claim_runs(store, a_claim(instance_id, count=2)):
                await store.apply(Complete(claim_of(run)))
        snapshot = await store.runs.snapshot()
        assert [tuple(recent_key) for recent_key in snapshot.recent_keys] == fold(
            await read_events(store)
        )


@pytest.mark.proves("R1.10")
async def test_key_without_remaining_runs_is_not_in_the_snapshot(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store, "old")
    await store.apply(Complete(claim_of(run)))
    clock.advance(1)
    await submit_run(store, "new")
    await store.apply(PruneRuns((run.run_id,), ended_before=clock()))
    snapshot = await store.runs.snapshot()
    assert [recent_key.key for recent_key in snapshot.recent_keys] == ["new"]
