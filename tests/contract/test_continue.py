"""Continue: a new run that goes on from the key's last checkpoint (R1.1, R1.8)."""

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.claim import ClaimedRun
from headway.core.command.run.report import SaveCheckpoint
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail
from headway.core.run.admission import OnConflict
from headway.core.run.run import Claim, RunMode
from headway.testing import a_claim, a_submit, an_error, claim_of, document
from tests.contract.scenes import (
    claimed_one,
    instance,
    orphaned,
    record,
    running,
    state,
    submitted,
    together,
)


async def ended_at_page(store: SqlStore, page: int, *, key: str = "ann") -> ClaimedRun:
    one = await running(store, key)
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": page})))
    await store.apply(Complete(claim_of(one)))
    return one


@pytest.mark.proves("R1.1")
@pytest.mark.parametrize("end", ["completed", "failed", "canceled"])
async def test_a_continue_goes_on_from_the_last_checkpoint(store: SqlStore, end: str) -> None:
    one = await running(store)
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 3})))
    if end == "completed":
        await store.apply(Complete(claim_of(one)))
    elif end == "failed":
        await store.apply(Fail(claim_of(one), an_error()))
    else:
        await store.apply(RequestCancel(run_id=one.run_id))
        await store.apply(ConfirmCancel(claim_of(one)))
    run_id = await submitted(store, mode=RunMode.CONTINUE)
    run = await state(store, run_id)
    assert (run.mode, run.continued_from) == (RunMode.CONTINUE, one.run_id)
    again = await claimed_one(store, await instance(store))
    assert (again.run_id, again.mode, again.checkpoint) == (run_id, RunMode.CONTINUE, '{"page":3}')
    assert (await record(store, run_id)).checkpoint == '{"page":3}'


@pytest.mark.proves("R1.1")
async def test_a_start_begins_afresh(store: SqlStore) -> None:
    await ended_at_page(store, 3)
    run_id = await submitted(store)
    one = await claimed_one(store, await instance(store))
    assert (one.run_id, one.checkpoint) == (run_id, None)
    assert (await state(store, run_id)).continued_from is None


@pytest.mark.proves("R1.1")
async def test_what_was_started_afresh_is_continued_from_there(store: SqlStore) -> None:
    """Not from the checkpoint of an older run, which the Start has put aside."""
    await ended_at_page(store, 3)
    fresh = await running(store)
    await store.apply(Complete(claim_of(fresh)))
    await submitted(store, mode=RunMode.CONTINUE)
    assert (await claimed_one(store, await instance(store))).checkpoint is None


@pytest.mark.proves("R1.1")
async def test_a_continue_of_a_key_that_never_ran_starts_from_nothing(
    store: SqlStore,
) -> None:
    await ended_at_page(store, 3, key="bob")
    run_id = await submitted(store, mode=RunMode.CONTINUE)
    one = await claimed_one(store, await instance(store))
    assert (one.run_id, one.checkpoint) == (run_id, None)
    assert (await state(store, run_id)).continued_from is None


@pytest.mark.proves("R1.1")
async def test_a_continue_of_a_continue_goes_on(store: SqlStore) -> None:
    await ended_at_page(store, 3)
    for page in (4, 5):
        await submitted(store, mode=RunMode.CONTINUE)
        one = await claimed_one(store, await instance(store))
        assert one.checkpoint == f'{{"page":{page - 1}}}'
        await store.apply(SaveCheckpoint(claim_of(one), document({"page": page})))
        await store.apply(Complete(claim_of(one)))


@pytest.mark.proves("R1.1")
async def test_a_continue_that_saved_nothing_hands_on_what_it_got(store: SqlStore) -> None:
    await ended_at_page(store, 3)
    for _ in range(2):
        await submitted(store, mode=RunMode.CONTINUE)
        one = await claimed_one(store, await instance(store))
        assert one.checkpoint == '{"page":3}'
        await store.apply(Complete(claim_of(one)))


@pytest.mark.proves("R1.1")
async def test_a_continue_queued_behind_its_predecessor_gets_what_that_leaves(
    store: SqlStore,
) -> None:
    one = await running(store)
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 1})))
    behind = await submitted(store, mode=RunMode.CONTINUE, on_conflict=OnConflict.ENQUEUE)
    assert (await state(store, behind)).continued_from == one.run_id
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 2})))
    await store.apply(Complete(claim_of(one)))
    again = await claimed_one(store, await instance(store))
    assert (again.run_id, again.checkpoint) == (behind, '{"page":2}')


@pytest.mark.proves("R1.1")
async def test_a_continue_claimed_in_the_batch_that_ends_its_predecessor(
    store: SqlStore,
) -> None:
    holder = await instance(store)
    one = await running(store, by=holder)
    behind = await submitted(store, mode=RunMode.CONTINUE, on_conflict=OnConflict.ENQUEUE)
    _, _, (again,) = await together(
        store,
        SaveCheckpoint(claim_of(one), document({"page": 7})),
        Complete(claim_of(one)),
        a_claim(holder, count=3),
    )
    assert (again.run_id, again.checkpoint) == (behind, '{"page":7}')
    assert (await record(store, behind)).checkpoint == '{"page":7}'


@pytest.mark.proves("R1.1")
async def test_a_continue_submitted_and_claimed_in_one_batch(store: SqlStore) -> None:
    holder = await instance(store)
    await ended_at_page(store, 3)
    _, (again,) = await together(store, a_submit(mode=RunMode.CONTINUE), a_claim(holder))
    assert again.checkpoint == '{"page":3}'


@pytest.mark.proves("R1.1")
async def test_the_whole_life_of_a_continue_in_one_batch_after_an_end(
    store: SqlStore,
) -> None:
    """End, continue and claim arrive together: each sees what the one before it did."""
    holder = await instance(store)
    one = await running(store, by=holder)
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 1})))
    _, accepted, (again,) = await together(
        store, Complete(claim_of(one)), a_submit(mode=RunMode.CONTINUE), a_claim(holder)
    )
    assert (again.run_id, again.checkpoint) == (accepted.run_id, '{"page":1}')
    assert (await state(store, again.run_id)).continued_from == one.run_id


@pytest.mark.proves("R1.6")
@pytest.mark.parametrize("mode", RunMode)
async def test_a_run_canceled_while_queued_does_not_hide_the_last_checkpoint(
    store: SqlStore, mode: RunMode
) -> None:
    """It never ran, and its cancel has no side effect: Continue goes on where the key was."""
    await ended_at_page(store, 3)
    await store.apply(RequestCancel(run_id=await submitted(store, mode=mode)))
    await submitted(store, mode=RunMode.CONTINUE)
    assert (await claimed_one(store, await instance(store))).checkpoint == '{"page":3}'


@pytest.mark.proves("R1.6")
async def test_a_queued_predecessor_that_is_canceled_is_skipped(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 3})))
    wanted = {"mode": RunMode.CONTINUE, "on_conflict": OnConflict.ENQUEUE}
    skipped = await submitted(store, **wanted)
    last = await submitted(store, **wanted)
    await store.apply(RequestCancel(run_id=skipped))
    await store.apply(Complete(claim_of(one)))
    again = await claimed_one(store, await instance(store))
    assert (again.run_id, again.checkpoint) == (last, '{"page":3}')


@pytest.mark.proves("R1.1")
async def test_a_continue_taken_over_keeps_its_own_checkpoint(store: SqlStore) -> None:
    await ended_at_page(store, 3)
    run_id = await submitted(store, mode=RunMode.CONTINUE)
    one = await claimed_one(store, await instance(store))
    await store.apply(SaveCheckpoint(Claim(run_id, one.token), document({"page": 4})))
    await orphaned(store, run_id)
    assert (await claimed_one(store, await instance(store))).checkpoint == '{"page":4}'
