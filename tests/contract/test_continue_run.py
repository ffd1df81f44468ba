"""Continue: a new run starts from the last checkpoint of its key (R1.1, R1.8)."""

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
    apply_in_one_batch,
    claim_run,
    orphan_run,
    read_record,
    read_run,
    register_instance,
    start_run,
    submit_run,
)


async def end_at_page(store: SqlStore, page: int, *, key: str = "ann") -> ClaimedRun:
    run = await start_run(store, key)
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": page})))
    await store.apply(Complete(claim_of(run)))
    return run


@pytest.mark.proves("R1.1")
@pytest.mark.parametrize("end", ["completed", "failed", "canceled"])
async def test_continue_starts_from_the_last_checkpoint(store: SqlStore, end: str) -> None:
    claimed_run = await start_run(store)
    await store.apply(SaveCheckpoint(claim_of(claimed_run), document({"page": 3})))
    if end == "completed":
        await store.apply(Complete(claim_of(claimed_run)))
    elif end == "failed":
        await store.apply(Fail(claim_of(claimed_run), an_error()))
    else:
        await store.apply(RequestCancel(run_id=claimed_run.run_id))
        await store.apply(ConfirmCancel(claim_of(claimed_run)))
    run_id = await submit_run(store, mode=RunMode.CONTINUE)
    run = await read_run(store, run_id)
    assert (run.mode, run.continued_from) == (RunMode.CONTINUE, claimed_run.run_id)
    again = await claim_run(store, await register_instance(store))
    assert (again.run_id, again.mode, again.checkpoint) == (run_id, RunMode.CONTINUE, '{"page":3}')
    assert (await read_record(store, run_id)).checkpoint == '{"page":3}'


@pytest.mark.proves("R1.1")
async def test_start_begins_without_a_checkpoint(store: SqlStore) -> None:
    await end_at_page(store, 3)
    run_id = await submit_run(store)
    run = await claim_run(store, await register_instance(store))
    assert (run.run_id, run.checkpoint) == (run_id, None)
    assert (await read_run(store, run_id)).continued_from is None


@pytest.mark.proves("R1.1")
async def test_continue_after_a_start_uses_the_checkpoint_of_that_start(store: SqlStore) -> None:
    """The checkpoint of an older run, which the Start has discarded, is not used."""
    await end_at_page(store, 3)
    fresh = await start_run(store)
    await store.apply(Complete(claim_of(fresh)))
    await submit_run(store, mode=RunMode.CONTINUE)
    assert (await claim_run(store, await register_instance(store))).checkpoint is None


@pytest.mark.proves("R1.1")
async def test_continue_of_a_key_that_never_ran_has_no_checkpoint(
    store: SqlStore,
) -> None:
    await end_at_page(store, 3, key="bob")
    run_id = await submit_run(store, mode=RunMode.CONTINUE)
    run = await claim_run(store, await register_instance(store))
    assert (run.run_id, run.checkpoint) == (run_id, None)
    assert (await read_run(store, run_id)).continued_from is None


@pytest.mark.proves("R1.1")
async def test_continue_after_a_continued_run_uses_the_checkpoint_of_that_run(
    store: SqlStore,
) -> None:
    await end_at_page(store, 3)
    for page in (4, 5):
        await submit_run(store, mode=RunMode.CONTINUE)
        run = await claim_run(store, await register_instance(store))
        assert run.checkpoint == f'{{"page":{page - 1}}}'
        await store.apply(SaveCheckpoint(claim_of(run), document({"page": page})))
        await store.apply(Complete(claim_of(run)))


@pytest.mark.proves("R1.1")
async def test_continue_without_a_new_checkpoint_keeps_the_previous_one(store: SqlStore) -> None:
    await end_at_page(store, 3)
    for _ in range(2):
        await submit_run(store, mode=RunMode.CONTINUE)
        run = await claim_run(store, await register_instance(store))
        assert run.checkpoint == '{"page":3}'
        await store.apply(Complete(claim_of(run)))


@pytest.mark.proves("R1.1")
async def test_continue_queued_behind_an_active_run_gets_the_last_checkpoint_of_that_run(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 1})))
    behind = await submit_run(store, mode=RunMode.CONTINUE, on_conflict=OnConflict.ENQUEUE)
    assert (await read_run(store, behind)).continued_from == run.run_id
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 2})))
    await store.apply(Complete(claim_of(run)))
    again = await claim_run(store, await register_instance(store))
    assert (again.run_id, again.checkpoint) == (behind, '{"page":2}')


@pytest.mark.proves("R1.1")
async def test_continue_is_claimed_in_the_batch_that_ends_its_predecessor(
    store: SqlStore,
) -> None:
    holder = await register_instance(store)
    run = await start_run(store, by=holder)
    behind = await submit_run(store, mode=RunMode.CONTINUE, on_conflict=OnConflict.ENQUEUE)
    _, _, (again,) = await apply_in_one_batch(
        store,
        SaveCheckpoint(claim_of(run), document({"page": 7})),
        Complete(claim_of(run)),
        a_claim(holder, count=3),
    )
    assert (again.run_id, again.checkpoint) == (behind, '{"page":7}')
    assert (await read_record(store, behind)).checkpoint == '{"page":7}'


@pytest.mark.proves("R1.1")
async def test_continue_is_submitted_and_claimed_in_one_batch(store: SqlStore) -> None:
    holder = await register_instance(store)
    await end_at_page(store, 3)
    _, (again,) = await apply_in_one_batch(store, a_submit(mode=RunMode.CONTINUE), a_claim(holder))
    assert again.checkpoint == '{"page":3}'


@pytest.mark.proves("R1.1")
async def test_continue_is_submitted_and_claimed_in_the_batch_that_ends_the_run_before(
    store: SqlStore,
) -> None:
    """End, continue and claim arrive together, and each sees the changes of earlier commands."""
    holder = await register_instance(store)
    run = await start_run(store, by=holder)
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 1})))
    _, accepted, (again,) = await apply_in_one_batch(
        store, Complete(claim_of(run)), a_submit(mode=RunMode.CONTINUE), a_claim(holder)
    )
    assert (again.run_id, again.checkpoint) == (accepted.run_id, '{"page":1}')
    assert (await read_run(store, again.run_id)).continued_from == run.run_id


@pytest.mark.proves("R1.6")
@pytest.mark.parametrize("mode", RunMode)
async def test_run_canceled_while_queued_does_not_hide_the_last_checkpoint(
    store: SqlStore, mode: RunMode
) -> None:
    """It never ran, and its cancel has no side effect: Continue uses the earlier checkpoint."""
    await end_at_page(store, 3)
    await store.apply(RequestCancel(run_id=await submit_run(store, mode=mode)))
    await submit_run(store, mode=RunMode.CONTINUE)
    assert (await claim_run(store, await register_instance(store))).checkpoint == '{"page":3}'


@pytest.mark.proves("R1.6")
async def test_canceled_predecessor_that_never_started_is_skipped(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 3})))
    options = {"mode": RunMode.CONTINUE, "on_conflict": OnConflict.ENQUEUE}
    skipped = await submit_run(store, **options)
    last = await submit_run(store, **options)
    await store.apply(RequestCancel(run_id=skipped))
    await store.apply(Complete(claim_of(run)))
    again = await claim_run(store, await register_instance(store))
    assert (again.run_id, again.checkpoint) == (last, '{"page":3}')


@pytest.mark.proves("R1.1")
async def test_continued_run_keeps_its_own_checkpoint_after_a_takeover(store: SqlStore) -> None:
    await end_at_page(store, 3)
    run_id = await submit_run(store, mode=RunMode.CONTINUE)
    run = await claim_run(store, await register_instance(store))
    await store.apply(SaveCheckpoint(Claim(run_id, run.token), document({"page": 4})))
    await orphan_run(store, run_id)
    assert (await claim_run(store, await register_instance(store))).checkpoint == '{"page":4}'
