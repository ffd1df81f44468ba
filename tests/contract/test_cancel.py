"""A cancel is immediate for a run without a holder, else has a deadline (I11, R1.8, R2.5)."""

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
    claim_run,
    claim_runs,
    orphan_run,
    read_events,
    read_lane,
    read_record,
    read_run,
    read_status,
    read_transitions,
    register_instance,
    start_run,
    submit_run,
)


def intent(record: RunRecord) -> Any:
    assert record.cancel is not None
    return json.loads(record.cancel)


@pytest.mark.proves("I11")
async def test_queued_run_is_canceled_at_once_and_never_runs(
    store: SqlStore, clock: FakeClock
) -> None:
    run_id = await submit_run(store)
    clock.advance(1)
    assert await store.apply(RequestCancel(run_id=run_id)) is CancelResult.CANCELED
    run = await read_run(store, run_id)
    assert (run.status, run.ended_at) == (RunStatus.CANCELED, clock())
    assert (run.started_at, run.generation, run.due_at) == (None, 0, None)
    assert await read_transitions(store, run_id) == [(None, "queued"), ("queued", "canceled")]
    assert await claim_runs(store, a_claim(await register_instance(store))) == ()


@pytest.mark.proves("I11")
async def test_run_waiting_behind_another_is_canceled_at_once(store: SqlStore) -> None:
    head = await submit_run(store)
    behind = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(RequestCancel(run_id=behind)) is CancelResult.CANCELED
    assert (await read_run(store, head)).head_key == "ann"
    assert await read_status(store, behind) is RunStatus.CANCELED


@pytest.mark.proves("I11")
async def test_cancel_makes_a_running_run_cancelling_at_once_with_a_deadline(
    store: SqlStore, clock: FakeClock
) -> None:
    claimed_run = await start_run(store)
    cancel = RequestCancel(run_id=claimed_run.run_id, grace_s=5)
    assert await store.apply(cancel) is CancelResult.REQUESTED
    run = await read_run(store, claimed_run.run_id)
    assert run.status is RunStatus.CANCELLING
    assert (run.cancel_deadline_at, run.due_at) == (add_seconds(clock(), seconds=5),) * 2
    # The claim is still current: the job cleans up while it holds slot and key.
    assert (run.token, run.generation, run.slot, run.head_key) == (
        claimed_run.token,
        1,
        "main",
        "ann",
    )
    assert await store.apply(ConfirmCancel(claim_of(claimed_run))) == Settled(RunStatus.CANCELED)
    assert (await read_lane(store)).held_count == 0


@pytest.mark.proves("I11")
async def test_cancelling_run_may_still_report_but_accepts_no_messages(store: SqlStore) -> None:
    run = await start_run(store)
    claim = claim_of(run)
    await store.apply(SetWindow(claim, Window.STREAMING))
    await store.apply(RequestCancel(run_id=run.run_id))
    assert (await read_run(store, run.run_id)).window == 0
    assert await store.apply(SaveProgress(claim, document({"n": 1})))
    assert await store.apply(SaveCheckpoint(claim, document({"n": 1})))
    before = await read_all(store)
    assert await store.apply(SetWindow(claim, Window.STREAMING)) is False
    assert await store.apply(a_message(run.run_id)) == NotActive()
    for waiting in (ReleaseSlot(claim), Park(claim), Wake(run.run_id)):
        assert await store.apply(waiting) is False
    assert await store.apply(RequestSlot(claim)) is SlotResult.REFUSED
    assert await read_all(store) == before


@pytest.mark.proves("I11")
async def test_cancel_is_forced_only_after_its_deadline(store: SqlStore, clock: FakeClock) -> None:
    claimed_run = await start_run(store)
    behind = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(ForceCancel(claimed_run.run_id)) is False  # No cancel was requested.
    await store.apply(RequestCancel(run_id=claimed_run.run_id, grace_s=5))
    clock.advance(4.999999)
    assert await store.apply(ForceCancel(claimed_run.run_id)) is False
    assert list(await store.runs.runs_due(clock(), limit=10)) == []
    clock.advance(0.000001)
    assert [run.id for run in await store.runs.runs_due(clock(), limit=10)] == [claimed_run.run_id]
    assert await store.apply(ForceCancel(claimed_run.run_id)) is True
    assert await store.apply(ForceCancel(claimed_run.run_id)) is False
    run = await read_run(store, claimed_run.run_id)
    assert (run.status, run.generation, run.slot) == (RunStatus.CANCELED, 2, None)
    (*_, event) = await read_events(store, claimed_run.run_id)
    assert json.loads(event.payload) == {"from": "cancelling", "to": "canceled", "forced": True}
    assert await store.apply(ConfirmCancel(claim_of(claimed_run))) == TooLate(RunStatus.CANCELED)
    assert (await claim_run(store, await register_instance(store))).run_id == behind


@pytest.mark.proves("I11")
@pytest.mark.parametrize("source", ["parked", "woken", "orphaned"])
async def test_run_without_a_holder_is_canceled_at_once(
    store: SqlStore, clock: FakeClock, source: str
) -> None:
    claimed_run = await start_run(store)
    if source == "orphaned":
        await orphan_run(store, claimed_run.run_id)
    else:
        await store.apply(Park(claim_of(claimed_run), wake_at=add_seconds(clock(), seconds=60)))
        if source == "woken":
            await store.apply(a_message(claimed_run.run_id))
    assert await store.apply(RequestCancel(run_id=claimed_run.run_id)) is CancelResult.CANCELED
    run = await read_run(store, claimed_run.run_id)
    assert (run.status, run.generation, run.due_at) == (RunStatus.CANCELED, 2, None)
    assert (await read_transitions(store, claimed_run.run_id))[2:] == [
        ("running", "cancelling"),
        ("cancelling", "canceled"),
    ]
    assert await claim_runs(store, a_claim(await register_instance(store), count=9)) == ()
    assert await store.apply(Wake(claimed_run.run_id)) is False


@pytest.mark.proves("I11")
@pytest.mark.parametrize("wants_slot", [False, True])
async def test_cancel_makes_a_waiting_run_without_a_slot_cancelling(
    store: SqlStore, wants_slot: bool
) -> None:
    holder = await register_instance(store)
    run = await start_run(store, by=holder)
    await store.apply(ReleaseSlot(claim_of(run)))
    if wants_slot:
        await store.apply(RequestSlot(claim_of(run)))
    assert await store.apply(RequestCancel(run_id=run.run_id)) is CancelResult.REQUESTED
    assert await claim_runs(store, a_claim(holder)) == ()  # It needs no slot to clean up.
    assert await store.apply(ConfirmCancel(claim_of(run))) == Settled(RunStatus.CANCELED)


@pytest.mark.proves("I11")
async def test_second_cancel_changes_neither_the_files_option_nor_the_deadline(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store)
    await store.apply(RequestCancel(run_id=run.run_id, files=FilesOnCancel.DELETE, grace_s=5))
    clock.advance(1)
    before = await read_all(store)
    again = RequestCancel(run_id=run.run_id, files=FilesOnCancel.KEEP, grace_s=500)
    assert await store.apply(again) is CancelResult.ALREADY_REQUESTED
    assert await read_all(store) == before


@pytest.mark.proves("R1.8")
@pytest.mark.parametrize("files", FilesOnCancel)
@pytest.mark.parametrize("is_running", [False, True])
async def test_options_of_a_cancel_are_recorded_in_the_run_and_in_its_event(
    store: SqlStore, files: FilesOnCancel, is_running: bool
) -> None:
    run_id = (await start_run(store)).run_id if is_running else await submit_run(store)
    await store.apply(RequestCancel(run_id=run_id, files=files, reason='"why"', by="bob"))
    options = {"files": files.value, "reason": '"why"', "by": "bob"}
    assert intent(await read_record(store, run_id)) == options
    (*_, event) = await read_events(store, run_id)
    assert json.loads(event.payload)["cancel"] == options


@pytest.mark.proves("R1.8")
async def test_files_are_kept_by_default(store: SqlStore) -> None:
    run_id = await submit_run(store)
    await store.apply(RequestCancel(run_id=run_id))
    assert intent(await read_record(store, run_id)) == {"files": "keep", "reason": "", "by": ""}


@pytest.mark.proves("R2.5")
async def test_run_that_finished_before_it_saw_the_cancel_succeeds(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(RequestCancel(run_id=run.run_id))
    done = await store.apply(Complete(claim_of(run), document({"files": 3})))
    assert done == Settled(RunStatus.SUCCEEDED)
    stored = await read_record(store, run.run_id)
    assert (stored.result, stored.run.cancel_deadline_at, stored.run.due_at) == (
        '{"files":3}',
        None,
        None,
    )


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    "wrong", [{"reason": "x" * 5000}, {"reason": "\ud800"}, {"by": "\0"}], ids=str
)
def test_cancel_that_cannot_be_stored_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="cancel"):
        RequestCancel(run_id=RunId("any"), **wrong)
