"""The row of a key: its status name (R1.6), its saved parameters and its lock (R1.7)."""

import asyncio
import json
from dataclasses import replace

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.batch_state import SavedKey
from headway.core.command.admin.save_key import DeleteKey, Locked, SaveKey
from headway.core.command.protocol import RevisionMismatch
from headway.core.command.run.cancel import CancelResult, RequestCancel
from headway.core.command.run.settle import Complete
from headway.core.command.run.submit import Accepted, KeyRowChanged
from headway.core.ids import Key
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.core.run.run import Run
from headway.core.run.status import RunStatus, row_status_name
from headway.ports.run_reader import RunFilter
from headway.testing import FakeClock, a_submit, claim_of, document
from tests.contract.backends import read_all
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

ANN = Key("ann")


async def read_row_name(store: SqlStore, key: str) -> str:
    """Return the name that the row shows: that of the key's last run that was not rejected."""
    run_filter = RunFilter(key=Key(key), statuses=frozenset(RunStatus) - {RunStatus.REJECTED})
    last = [record async for record in store.runs.list_runs(run_filter, limit=1)]
    return row_name(last[0].run) if last else "Idle"


def row_name(run: Run) -> str:
    return row_status_name(run.status, has_started=run.started_at is not None)


@pytest.mark.proves("R1.6")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (RunStatus.QUEUED, "Queued"),
        (RunStatus.RUNNING, "Running"),
        (RunStatus.CANCELLING, "Running"),
        (RunStatus.SUCCEEDED, "Done"),
        (RunStatus.FAILED, "Failed"),
        (RunStatus.CANCELED, "Cancelled"),
        (RunStatus.TIMED_OUT, "Failed"),
    ],
)
async def test_row_shows_the_status_name_of_its_run(
    store: SqlStore, clock: FakeClock, source: RunStatus, expected: str
) -> None:
    assert await read_row_name(store, "ann") == "Idle"
    await bring_run_to(store, clock, source)
    assert await read_row_name(store, "ann") == expected


@pytest.mark.proves("R1.6")
async def test_canceled_queued_run_leaves_its_key_idle(
    store: SqlStore,
) -> None:
    run_id = await submit_run(store)
    assert await store.apply(RequestCancel(run_id=run_id)) is CancelResult.CANCELED
    run = await read_run(store, run_id)
    assert (run.started_at, run.generation, run.slot, run.head_key) == (None, 0, None, None)
    assert await read_row_name(store, "ann") == "Idle"
    assert isinstance(await store.apply(SaveKey(key=ANN, job="mirror")), SavedKey)
    await submit_run(store)


@pytest.mark.proves("R2.1")
async def test_rejected_run_does_not_change_the_status_of_its_row(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(a_submit(is_unattended=True))
    assert await read_row_name(store, "ann") == "Running"
    await store.apply(Complete(claim_of(run)))
    assert await read_row_name(store, "ann") == "Done"
    assert row_status_name(RunStatus.REJECTED, has_started=False) == "Idle"


@pytest.mark.proves("R1.7")
async def test_row_is_saved_with_its_revision_and_event(store: SqlStore, clock: FakeClock) -> None:
    saved = await store.apply(SaveKey(key=ANN, job="mirror", params=document({"page": 1})))
    assert saved == SavedKey(ANN, "mirror", '{"page":1}', 1, clock())
    clock.advance(1)
    changed = await store.apply(SaveKey(key=ANN, job="other"))
    assert changed == SavedKey(ANN, "other", "{}", 2, clock())
    assert [run async for run in store.runs.keys(limit=10)] == [changed]
    events_read = [
        (event.type, event.key, json.loads(event.payload)) for event in await read_events(store)
    ]
    assert events_read == [
        (EventType.KEY_CHANGED, ANN, {"revision": 1, "by": ""}),
        (EventType.KEY_CHANGED, ANN, {"revision": 2, "by": ""}),
    ]


@pytest.mark.proves("R1.7")
async def test_row_changed_by_another_writer_is_not_overwritten(store: SqlStore) -> None:
    await store.apply(SaveKey(key=ANN, job="mirror", expected_revision=0))
    before = await read_all(store)
    stale = SaveKey(key=ANN, job="other", expected_revision=0)
    assert await store.apply(stale) == RevisionMismatch(1)
    assert await read_all(store) == before


@pytest.mark.proves("R1.7")
async def test_save_with_the_revision_of_a_deleted_row_is_refused(store: SqlStore) -> None:
    first = await store.apply(SaveKey(key=ANN, job="mirror"))
    assert isinstance(first, SavedKey)
    await store.apply(DeleteKey(ANN))
    again = await store.apply(SaveKey(key=ANN, job="mirror"))
    assert isinstance(again, SavedKey)
    stale = SaveKey(key=ANN, job="other", expected_revision=first.revision)
    assert await store.apply(stale) == RevisionMismatch(again.revision)


@pytest.mark.proves("R1.7")
@pytest.mark.parametrize(
    "source", [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.CANCELLING], ids=str
)
async def test_row_is_locked_while_its_run_is_active(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    await store.apply(SaveKey(key=ANN, job="mirror"))
    run = await bring_run_to(store, clock, source)
    before = await read_all(store)
    assert await store.apply(SaveKey(key=ANN, job="other")) == Locked(run.run_id)
    assert await store.apply(DeleteKey(ANN)) == Locked(run.run_id)
    assert await read_all(store) == before
    # The row of another key is not locked.
    assert isinstance(await store.apply(SaveKey(key=Key("bob"), job="mirror")), SavedKey)


@pytest.mark.proves("R1.7")
async def test_row_stays_locked_while_another_run_of_the_key_waits(store: SqlStore) -> None:
    run = await start_run(store)
    second = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    await store.apply(Complete(claim_of(run)))
    assert await store.apply(SaveKey(key=ANN, job="other")) == Locked(second)
    await store.apply(Complete(claim_of(await claim_run(store, await register_instance(store)))))
    assert isinstance(await store.apply(SaveKey(key=ANN, job="other")), SavedKey)


@pytest.mark.proves("R1.7")
async def test_simultaneous_submit_and_save_are_serialized(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Either the row was saved before the run was accepted, or the save found it locked."""
    for number in range(10):
        key = Key(f"key-{number}")
        accepted, saved = await asyncio.gather(
            store.apply(a_submit(key)), another_store.apply(SaveKey(key=key, job="other"))
        )
        order = [event.type for event in await read_events(store) if event.key == key]
        if isinstance(saved, SavedKey):
            assert order == [EventType.KEY_CHANGED, EventType.STATE_CHANGED]
        else:
            assert isinstance(accepted, Accepted)
            assert saved == Locked(accepted.run_id)
            assert order == [EventType.STATE_CHANGED]


@pytest.mark.proves("R1.7")
async def test_row_can_be_deleted(store: SqlStore) -> None:
    assert await store.apply(DeleteKey(ANN)) is False
    await store.apply(SaveKey(key=ANN, job="mirror"))
    assert await store.apply(DeleteKey(ANN)) is True
    assert [run async for run in store.runs.keys(limit=10)] == []
    assert json.loads((await read_events(store))[-1].payload) == {"revision": None, "by": ""}


@pytest.mark.proves("R1.7")
async def test_several_changes_in_one_batch_are_serialized(
    store: SqlStore,
) -> None:
    saves = [SaveKey(key=ANN, job=job) for job in ("a", "b", "c")]
    answers = await apply_in_one_batch(store, *saves[:2], DeleteKey(ANN), saves[2])
    assert [getattr(answer, "job", answer) for answer in answers] == ["a", "b", True, "c"]
    (saved,) = [run async for run in store.runs.keys(limit=10)]
    assert saved.job == "c"
    assert [event.type for event in await read_events(store)] == [EventType.KEY_CHANGED] * 4


@pytest.mark.proves("R1.7")
async def test_run_is_refused_if_the_saved_row_with_its_parameters_has_changed(
    store: SqlStore,
) -> None:
    first = await store.apply(SaveKey(key=ANN, job="mirror", params=document({"page": 1})))
    assert isinstance(first, SavedKey)
    submission = replace(a_submit(params={"page": 1}), row_revision=first.revision)
    saved, refused = await apply_in_one_batch(
        store, SaveKey(key=ANN, job="mirror", params=document({"page": 2})), submission
    )
    assert refused == KeyRowChanged(saved.revision)
    assert isinstance(await store.apply(replace(submission, row_revision=saved.revision)), Accepted)
    assert await store.apply(SaveKey(key=ANN, job="mirror")) == Locked(submission.run_id)
    await store.apply(RequestCancel(run_id=submission.run_id))
    await store.apply(DeleteKey(ANN))
    stale = replace(a_submit(), row_revision=saved.revision)
    assert await store.apply(stale) == KeyRowChanged(0)
