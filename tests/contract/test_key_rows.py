"""The row of a key: its word (R1.6), its saved parameters, and its lock (R1.7)."""

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
    claimed_one,
    events,
    given,
    instance,
    running,
    state,
    submitted,
    together,
)

ANN = Key("ann")


async def word(store: SqlStore, key: str) -> str:
    """What the row shows: the word of the key's last run that was not turned away."""
    wanted = RunFilter(key=Key(key), statuses=frozenset(RunStatus) - {RunStatus.REJECTED})
    last = [one async for one in store.runs.list_runs(wanted, limit=1)]
    return row_word_of(last[0].run) if last else "Idle"


def row_word_of(run: Run) -> str:
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
async def test_a_person_sees_one_of_six_words(
    store: SqlStore, clock: FakeClock, source: RunStatus, expected: str
) -> None:
    assert await word(store, "ann") == "Idle"
    await given(store, clock, source)
    assert await word(store, "ann") == expected


@pytest.mark.proves("R1.6")
async def test_a_canceled_queued_run_leaves_its_key_idle_and_nothing_else(
    store: SqlStore,
) -> None:
    run_id = await submitted(store)
    assert await store.apply(RequestCancel(run_id=run_id)) is CancelResult.CANCELED
    run = await state(store, run_id)
    assert (run.started_at, run.generation, run.slot, run.head_key) == (None, 0, None, None)
    assert await word(store, "ann") == "Idle"
    assert isinstance(await store.apply(SaveKey(key=ANN, job="mirror")), SavedKey)
    await submitted(store)


@pytest.mark.proves("R2.1")
async def test_a_rejected_run_never_changes_the_word(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(a_submit(is_unattended=True))
    assert await word(store, "ann") == "Running"
    await store.apply(Complete(claim_of(one)))
    assert await word(store, "ann") == "Done"
    assert row_status_name(RunStatus.REJECTED, has_started=False) == "Idle"


@pytest.mark.proves("R1.7")
async def test_a_row_is_saved_with_its_revision_and_event(
    store: SqlStore, clock: FakeClock
) -> None:
    saved = await store.apply(SaveKey(key=ANN, job="mirror", params=document({"page": 1})))
    assert saved == SavedKey(ANN, "mirror", '{"page":1}', 1, clock())
    clock.advance(1)
    changed = await store.apply(SaveKey(key=ANN, job="other"))
    assert changed == SavedKey(ANN, "other", "{}", 2, clock())
    assert [one async for one in store.runs.keys(limit=10)] == [changed]
    seen = [(event.type, event.key, json.loads(event.payload)) for event in await events(store)]
    assert seen == [
        (EventType.KEY_CHANGED, ANN, {"revision": 1, "by": ""}),
        (EventType.KEY_CHANGED, ANN, {"revision": 2, "by": ""}),
    ]


@pytest.mark.proves("R1.7")
async def test_a_row_changed_meanwhile_is_not_overwritten(store: SqlStore) -> None:
    await store.apply(SaveKey(key=ANN, job="mirror", expected_revision=0))
    before = await read_all(store)
    stale = SaveKey(key=ANN, job="other", expected_revision=0)
    assert await store.apply(stale) == RevisionMismatch(1)
    assert await read_all(store) == before


@pytest.mark.proves("R1.7")
async def test_a_row_made_again_is_not_taken_for_the_one_before(store: SqlStore) -> None:
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
async def test_the_row_is_locked_while_its_run_is_active(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    await store.apply(SaveKey(key=ANN, job="mirror"))
    run = await given(store, clock, source)
    before = await read_all(store)
    assert await store.apply(SaveKey(key=ANN, job="other")) == Locked(run.run_id)
    assert await store.apply(DeleteKey(ANN)) == Locked(run.run_id)
    assert await read_all(store) == before
    # Another key's row is nobody's business.
    assert isinstance(await store.apply(SaveKey(key=Key("bob"), job="mirror")), SavedKey)


@pytest.mark.proves("R1.7")
async def test_the_lock_outlasts_one_run_when_another_waits(store: SqlStore) -> None:
    one = await running(store)
    second = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    await store.apply(Complete(claim_of(one)))
    assert await store.apply(SaveKey(key=ANN, job="other")) == Locked(second)
    await store.apply(Complete(claim_of(await claimed_one(store, await instance(store)))))
    assert isinstance(await store.apply(SaveKey(key=ANN, job="other")), SavedKey)


@pytest.mark.proves("R1.7")
async def test_a_submit_and_a_save_at_once_never_both_win_out_of_order(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Either the row was saved before the run was accepted, or the save found it locked."""
    for number in range(10):
        key = Key(f"key-{number}")
        accepted, saved = await asyncio.gather(
            store.apply(a_submit(key)), another_store.apply(SaveKey(key=key, job="other"))
        )
        order = [event.type for event in await events(store) if event.key == key]
        if isinstance(saved, SavedKey):
            assert order == [EventType.KEY_CHANGED, EventType.STATE_CHANGED]
        else:
            assert isinstance(accepted, Accepted)
            assert saved == Locked(accepted.run_id)
            assert order == [EventType.STATE_CHANGED]


@pytest.mark.proves("R1.7")
async def test_a_row_can_be_deleted(store: SqlStore) -> None:
    assert await store.apply(DeleteKey(ANN)) is False
    await store.apply(SaveKey(key=ANN, job="mirror"))
    assert await store.apply(DeleteKey(ANN)) is True
    assert [one async for one in store.runs.keys(limit=10)] == []
    assert json.loads((await events(store))[-1].payload) == {"revision": None, "by": ""}


@pytest.mark.proves("R1.7")
async def test_several_changes_at_once_behave_as_one_after_the_other(
    store: SqlStore,
) -> None:
    saves = [SaveKey(key=ANN, job=job) for job in ("a", "b", "c")]
    answers = await together(store, *saves[:2], DeleteKey(ANN), saves[2])
    assert [getattr(answer, "job", answer) for answer in answers] == ["a", "b", True, "c"]
    (saved,) = [one async for one in store.runs.keys(limit=10)]
    assert saved.job == "c"
    assert [event.type for event in await events(store)] == [EventType.KEY_CHANGED] * 4


@pytest.mark.proves("R1.7")
async def test_a_run_with_the_parameters_of_a_row_that_has_changed_is_refused(
    store: SqlStore,
) -> None:
    first = await store.apply(SaveKey(key=ANN, job="mirror", params=document({"page": 1})))
    assert isinstance(first, SavedKey)
    wanted = replace(a_submit(params={"page": 1}), row_revision=first.revision)
    saved, refused = await together(
        store, SaveKey(key=ANN, job="mirror", params=document({"page": 2})), wanted
    )
    assert refused == KeyRowChanged(saved.revision)
    assert isinstance(await store.apply(replace(wanted, row_revision=saved.revision)), Accepted)
    assert await store.apply(SaveKey(key=ANN, job="mirror")) == Locked(wanted.run_id)
    await store.apply(RequestCancel(run_id=wanted.run_id))
    await store.apply(DeleteKey(ANN))
    gone = replace(a_submit(), row_revision=saved.revision)
    assert await store.apply(gone) == KeyRowChanged(0)
