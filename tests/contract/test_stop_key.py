"""Stopping a key cancels its queued runs first, then the active one; nothing starts between."""

import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import CancelResult, ForceCancel, StopKey, StoppedRun
from headway.core.command.run.report import SetWindow
from headway.core.command.run.settle import ConfirmCancel, Settled
from headway.core.command.run.wait import Park
from headway.core.errors import InvalidInput
from headway.core.ids import Instant, Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import FilesOnCancel
from headway.core.run.status import RunStatus
from headway.core.run.window import Window
from headway.testing import FakeClock, a_claim, claim_of
from tests.contract.backends import read_all
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_runs,
    read_record,
    read_run,
    read_status,
    read_transitions,
    register_instance,
    start_run,
    submit_run,
)

ANN = Key("ann")


async def queue_behind(store: SqlStore, count: int = 2) -> list[RunId]:
    return [await submit_run(store, on_conflict=OnConflict.ENQUEUE) for _ in range(count)]


@pytest.mark.proves("R7.10", "R3.11", "I11")
async def test_runs_behind_the_active_one_are_canceled_before_it_ends(store: SqlStore) -> None:
    head = await start_run(store)
    first, second = await queue_behind(store)
    other = await submit_run(store, "bob")
    assert await store.apply(StopKey(key=ANN, by="eve")) == (
        StoppedRun(second, CancelResult.CANCELED),
        StoppedRun(first, CancelResult.CANCELED),
        StoppedRun(head.run_id, CancelResult.REQUESTED),
    )
    assert await store.apply(ConfirmCancel(claim_of(head))) == Settled(RunStatus.CANCELED)
    taken = await claim_runs(store, a_claim(await register_instance(store), count=9))
    assert [run.run_id for run in taken] == [other]
    for run_id in (first, second):
        assert await read_transitions(store, run_id) == [(None, "queued"), ("queued", "canceled")]
        assert (await read_run(store, run_id)).started_at is None


@pytest.mark.proves("R7.10")
async def test_claim_in_the_same_batch_finds_no_run_of_the_key(store: SqlStore) -> None:
    head = await start_run(store)
    await store.apply(Park(claim_of(head), wake_at=Instant(0)))
    behind = await queue_behind(store, 1)
    holder = await register_instance(store)
    stopped, taken = await apply_in_one_batch(store, StopKey(key=ANN), a_claim(holder, count=9))
    assert [run.result for run in stopped] == [CancelResult.CANCELED] * 2
    assert taken == ()
    for run_id in (head.run_id, *behind):
        assert await read_status(store, run_id) is RunStatus.CANCELED


@pytest.mark.proves("R7.10")
async def test_stopping_a_key_cancels_its_queued_runs(store: SqlStore) -> None:
    head = await submit_run(store)
    (behind,) = await queue_behind(store, 1)
    assert await store.apply(StopKey(key=ANN)) == (
        StoppedRun(behind, CancelResult.CANCELED),
        StoppedRun(head, CancelResult.CANCELED),
    )
    assert await claim_runs(store, a_claim(await register_instance(store))) == ()
    await start_run(store)  # The key is free again.


@pytest.mark.proves("R7.10")
async def test_key_without_active_runs_has_nothing_to_stop(store: SqlStore) -> None:
    before = await read_all(store)
    assert await store.apply(StopKey(key=ANN)) == ()
    assert await read_all(store) == before


@pytest.mark.proves("R7.10", "R4.8")
async def test_stopping_a_key_ends_queued_runs_even_if_the_active_run_cannot_be_canceled(
    store: SqlStore,
) -> None:
    head = await start_run(store)
    (behind,) = await queue_behind(store, 1)
    await store.apply(SetWindow(claim_of(head), Window.CLOSED))
    assert await store.apply(StopKey(key=ANN)) == (
        StoppedRun(behind, CancelResult.CANCELED),
        StoppedRun(head.run_id, CancelResult.TOO_LATE),
    )
    assert await read_status(store, head.run_id) is RunStatus.RUNNING


@pytest.mark.proves("R7.10", "R1.8")
async def test_stopping_a_key_accepts_the_options_of_a_cancel(
    store: SqlStore, clock: FakeClock
) -> None:
    head = await start_run(store)
    await queue_behind(store, 1)
    await store.apply(
        StopKey(key=ANN, files=FilesOnCancel.DELETE, reason="enough", by="eve", grace_s=5)
    )
    stored = await read_record(store, head.run_id)
    assert stored.run.delete_files_on_cancel == 1
    assert stored.cancel is not None
    assert json.loads(stored.cancel) == {"files": "delete", "reason": "enough", "by": "eve"}
    clock.advance(5)
    assert await store.apply(ForceCancel(head.run_id))
    with pytest.raises(InvalidInput, match="cancel"):
        StopKey(key=ANN, reason="x" * 5_000)


@pytest.mark.proves("R7.10")
async def test_stopping_a_key_twice_changes_nothing_more(store: SqlStore) -> None:
    head = await start_run(store)
    await store.apply(StopKey(key=ANN))
    before = await read_all(store)
    again = await store.apply(StopKey(key=ANN))
    assert again == (StoppedRun(head.run_id, CancelResult.ALREADY_REQUESTED),)
    assert await read_all(store) == before
