"""Cancel: at once for what nobody holds, by a deadline for what somebody does (I11, R1.8, R2.5)."""

import json
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import CancelResult, ForceCancel, RequestCancel
from headway.core.command.run.inbox import NotActive
from headway.core.command.run.report import SaveCheckpoint, SaveProgress, SetWindow
from headway.core.command.run.settle import Complete, ConfirmCancel, Settled, TooLate
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot, SlotResult, Wake
from headway.core.errors import InvalidInput
from headway.core.ids import RunId, add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.run import FilesOnCancel, RunRecord
from headway.core.run.status import RunStatus
from headway.core.run.window import Window
from headway.testing import FakeClock, a_claim, a_message, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    claimed,
    claimed_one,
    events,
    instance,
    lane_view,
    moves,
    orphaned,
    record,
    running,
    state,
    status,
    submitted,
)


def intent(kept: RunRecord) -> Any:
    assert kept.cancel is not None
    return json.loads(kept.cancel)


@pytest.mark.proves("I11")
async def test_a_queued_run_is_canceled_at_once_and_never_runs(
    store: SqlStore, clock: FakeClock
) -> None:
    run_id = await submitted(store)
    clock.advance(1)
    assert await store.apply(RequestCancel(run_id=run_id)) is CancelResult.CANCELED
    run = await state(store, run_id)
    assert (run.status, run.ended_at) == (RunStatus.CANCELED, clock())
    assert (run.started_at, run.generation, run.due_at) == (None, 0, None)
    assert await moves(store, run_id) == [(None, "queued"), ("queued", "canceled")]
    assert await claimed(store, a_claim(await instance(store))) == ()


@pytest.mark.proves("I11")
async def test_a_run_waiting_behind_another_is_canceled_likewise(store: SqlStore) -> None:
    head = await submitted(store)
    behind = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(RequestCancel(run_id=behind)) is CancelResult.CANCELED
    assert (await state(store, head)).head_key == "ann"
    assert await status(store, behind) is RunStatus.CANCELED


@pytest.mark.proves("I11")
async def test_a_running_run_is_cancelling_at_once_with_a_deadline(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store)
    cancel = RequestCancel(run_id=one.run_id, grace_s=5)
    assert await store.apply(cancel) is CancelResult.REQUESTED
    run = await state(store, one.run_id)
    assert run.status is RunStatus.CANCELLING
    assert (run.cancel_deadline_at, run.due_at) == (add_seconds(clock(), seconds=5),) * 2
    # The claim is still in force: it unwinds, holding slot and key.
    assert (run.token, run.generation, run.slot, run.head_key) == (one.token, 1, "main", "ann")
    assert await store.apply(ConfirmCancel(claim_of(one))) == Settled(RunStatus.CANCELED)
    assert (await lane_view(store)).held_count == 0


@pytest.mark.proves("I11")
async def test_who_unwinds_may_still_report_but_takes_no_messages(store: SqlStore) -> None:
    one = await running(store)
    claim = claim_of(one)
    await store.apply(SetWindow(claim, Window.STREAMING))
    await store.apply(RequestCancel(run_id=one.run_id))
    assert (await state(store, one.run_id)).window == 0
    assert await store.apply(SaveProgress(claim, document({"n": 1})))
    assert await store.apply(SaveCheckpoint(claim, document({"n": 1})))
    before = await read_all(store)
    assert await store.apply(SetWindow(claim, Window.STREAMING)) is False
    assert await store.apply(a_message(one.run_id)) == NotActive()
    for waiting in (ReleaseSlot(claim), Park(claim), Wake(one.run_id)):
        assert await store.apply(waiting) is False
    assert await store.apply(RequestSlot(claim)) is SlotResult.REFUSED
    assert await read_all(store) == before


@pytest.mark.proves("I11")
async def test_a_cancel_is_forced_only_after_its_deadline(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store)
    behind = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(ForceCancel(one.run_id)) is False  # Nobody has asked for a cancel.
    await store.apply(RequestCancel(run_id=one.run_id, grace_s=5))
    clock.advance(4.999999)
    assert await store.apply(ForceCancel(one.run_id)) is False
    assert list(await store.runs.runs_due(clock(), limit=10)) == []
    clock.advance(0.000001)
    assert [run.id for run in await store.runs.runs_due(clock(), limit=10)] == [one.run_id]
    assert await store.apply(ForceCancel(one.run_id)) is True
    assert await store.apply(ForceCancel(one.run_id)) is False
    run = await state(store, one.run_id)
    assert (run.status, run.generation, run.slot) == (RunStatus.CANCELED, 2, None)
    (*_, event) = await events(store, one.run_id)
    assert json.loads(event.payload) == {"from": "cancelling", "to": "canceled", "forced": True}
    assert await store.apply(ConfirmCancel(claim_of(one))) == TooLate(RunStatus.CANCELED)
    assert (await claimed_one(store, await instance(store))).run_id == behind


@pytest.mark.proves("I11")
@pytest.mark.parametrize("source", ["parked", "woken", "orphaned"])
async def test_a_run_that_nobody_holds_is_canceled_at_once(
    store: SqlStore, clock: FakeClock, source: str
) -> None:
    one = await running(store)
    if source == "orphaned":
        await orphaned(store, one.run_id)
    else:
        await store.apply(Park(claim_of(one), wake_at=add_seconds(clock(), seconds=60)))
        if source == "woken":
            await store.apply(a_message(one.run_id))
    assert await store.apply(RequestCancel(run_id=one.run_id)) is CancelResult.CANCELED
    run = await state(store, one.run_id)
    assert (run.status, run.generation, run.due_at) == (RunStatus.CANCELED, 2, None)
    assert (await moves(store, one.run_id))[2:] == [
        ("running", "cancelling"),
        ("cancelling", "canceled"),
    ]
    assert await claimed(store, a_claim(await instance(store), count=9)) == ()
    assert await store.apply(Wake(one.run_id)) is False


@pytest.mark.proves("I11")
@pytest.mark.parametrize("wants_slot", [False, True])
async def test_a_run_that_waits_without_a_slot_is_asked(store: SqlStore, wants_slot: bool) -> None:
    holder = await instance(store)
    one = await running(store, by=holder)
    await store.apply(ReleaseSlot(claim_of(one)))
    if wants_slot:
        await store.apply(RequestSlot(claim_of(one)))
    assert await store.apply(RequestCancel(run_id=one.run_id)) is CancelResult.REQUESTED
    assert await claimed(store, a_claim(holder)) == ()  # It needs no slot to unwind.
    assert await store.apply(ConfirmCancel(claim_of(one))) == Settled(RunStatus.CANCELED)


@pytest.mark.proves("I11")
async def test_a_second_cancel_changes_neither_choice_nor_deadline(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store)
    await store.apply(RequestCancel(run_id=one.run_id, files=FilesOnCancel.DELETE, grace_s=5))
    clock.advance(1)
    before = await read_all(store)
    again = RequestCancel(run_id=one.run_id, files=FilesOnCancel.KEEP, grace_s=500)
    assert await store.apply(again) is CancelResult.ALREADY_REQUESTED
    assert await read_all(store) == before


@pytest.mark.proves("R1.8")
@pytest.mark.parametrize("files", FilesOnCancel)
@pytest.mark.parametrize("is_running", [False, True])
async def test_the_cancellers_choice_is_recorded_and_told(
    store: SqlStore, files: FilesOnCancel, is_running: bool
) -> None:
    run_id = (await running(store)).run_id if is_running else await submitted(store)
    await store.apply(RequestCancel(run_id=run_id, files=files, reason='"why"', by="bob"))
    wanted = {"files": files.value, "reason": '"why"', "by": "bob"}
    assert intent(await record(store, run_id)) == wanted
    (*_, event) = await events(store, run_id)
    assert json.loads(event.payload)["cancel"] == wanted


@pytest.mark.proves("R1.8")
async def test_files_are_kept_unless_told_otherwise(store: SqlStore) -> None:
    run_id = await submitted(store)
    await store.apply(RequestCancel(run_id=run_id))
    assert intent(await record(store, run_id)) == {"files": "keep", "reason": "", "by": ""}


@pytest.mark.proves("R2.5")
async def test_who_finished_before_it_saw_the_cancel_has_finished(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(RequestCancel(run_id=one.run_id))
    done = await store.apply(Complete(claim_of(one), document({"files": 3})))
    assert done == Settled(RunStatus.SUCCEEDED)
    kept = await record(store, one.run_id)
    assert (kept.result, kept.run.cancel_deadline_at, kept.run.due_at) == (
        '{"files":3}',
        None,
        None,
    )


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    "wrong", [{"reason": "x" * 5000}, {"reason": "\ud800"}, {"by": "\0"}], ids=str
)
def test_a_cancel_that_cannot_be_stored_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="cancel"):
        RequestCancel(run_id=RunId("any"), **wrong)
