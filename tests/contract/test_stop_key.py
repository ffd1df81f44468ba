"""Stop a key: its queued runs first, then the active one, and nothing starts in between."""

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
    claimed,
    instance,
    moves,
    record,
    running,
    state,
    status,
    submitted,
    together,
)

ANN = Key("ann")


async def queued_behind(store: SqlStore, count: int = 2) -> list[RunId]:
    return [await submitted(store, on_conflict=OnConflict.ENQUEUE) for _ in range(count)]


@pytest.mark.proves("R7.10", "R3.11", "I11")
async def test_the_runs_behind_the_active_one_are_canceled_before_it_ends(store: SqlStore) -> None:
    head = await running(store)
    first, second = await queued_behind(store)
    other = await submitted(store, "bob")
    assert await store.apply(StopKey(key=ANN, by="eve")) == (
        StoppedRun(second, CancelResult.CANCELED),
        StoppedRun(first, CancelResult.CANCELED),
        StoppedRun(head.run_id, CancelResult.REQUESTED),
    )
    assert await store.apply(ConfirmCancel(claim_of(head))) == Settled(RunStatus.CANCELED)
    taken = await claimed(store, a_claim(await instance(store), count=9))
    assert [one.run_id for one in taken] == [other]
    for run_id in (first, second):
        assert await moves(store, run_id) == [(None, "queued"), ("queued", "canceled")]
        assert (await state(store, run_id)).started_at is None


@pytest.mark.proves("R7.10")
async def test_a_claim_in_the_same_batch_finds_nothing_of_the_key(store: SqlStore) -> None:
    head = await running(store)
    await store.apply(Park(claim_of(head), wake_at=Instant(0)))
    behind = await queued_behind(store, 1)
    holder = await instance(store)
    stopped, taken = await together(store, StopKey(key=ANN), a_claim(holder, count=9))
    assert [run.answer for run in stopped] == [CancelResult.CANCELED] * 2
    assert taken == ()
    for run_id in (head.run_id, *behind):
        assert await status(store, run_id) is RunStatus.CANCELED


@pytest.mark.proves("R7.10")
async def test_a_key_none_of_whose_runs_has_started_is_stopped_too(store: SqlStore) -> None:
    head = await submitted(store)
    (behind,) = await queued_behind(store, 1)
    assert await store.apply(StopKey(key=ANN)) == (
        StoppedRun(behind, CancelResult.CANCELED),
        StoppedRun(head, CancelResult.CANCELED),
    )
    assert await claimed(store, a_claim(await instance(store))) == ()
    await running(store)  # The key is free again.


@pytest.mark.proves("R7.10")
async def test_a_key_without_active_runs_has_nothing_to_stop(store: SqlStore) -> None:
    before = await read_all(store)
    assert await store.apply(StopKey(key=ANN)) == ()
    assert await read_all(store) == before


@pytest.mark.proves("R7.10", "R4.8")
async def test_an_active_run_that_takes_no_cancel_says_so_and_the_queued_ones_go(
    store: SqlStore,
) -> None:
    head = await running(store)
    (behind,) = await queued_behind(store, 1)
    await store.apply(SetWindow(claim_of(head), Window.CLOSED))
    assert await store.apply(StopKey(key=ANN)) == (
        StoppedRun(behind, CancelResult.CANCELED),
        StoppedRun(head.run_id, CancelResult.TOO_LATE),
    )
    assert await status(store, head.run_id) is RunStatus.RUNNING


@pytest.mark.proves("R7.10", "R1.8")
async def test_the_choice_of_files_the_reason_and_the_deadline_are_those_of_a_cancel(
    store: SqlStore, clock: FakeClock
) -> None:
    head = await running(store)
    await queued_behind(store, 1)
    await store.apply(
        StopKey(key=ANN, files=FilesOnCancel.DELETE, reason="enough", by="eve", grace_s=5)
    )
    kept = await record(store, head.run_id)
    assert kept.run.delete_files_on_cancel == 1
    assert kept.cancel is not None
    assert json.loads(kept.cancel) == {"files": "delete", "reason": "enough", "by": "eve"}
    clock.advance(5)
    assert await store.apply(ForceCancel(head.run_id))
    with pytest.raises(InvalidInput, match="cancel"):
        StopKey(key=ANN, reason="x" * 5_000)


@pytest.mark.proves("R7.10")
async def test_to_stop_a_key_twice_is_to_stop_it_once(store: SqlStore) -> None:
    head = await running(store)
    await store.apply(StopKey(key=ANN))
    before = await read_all(store)
    again = await store.apply(StopKey(key=ANN))
    assert again == (StoppedRun(head.run_id, CancelResult.ALREADY_REQUESTED),)
    assert await read_all(store) == before
