"""Children are started once by the executor of the parent, found again, and end with it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.instance import DeclareDead, ReleaseOrphan
from headway.core.command.admin.prune import PruneRuns
from headway.core.command.run.cancel import CancelResult, ForceCancel, RequestCancel
from headway.core.command.run.child import (
    CancelChild,
    ChildFound,
    ChildMismatch,
    ConfirmChildrenEnded,
    ParentNotRunning,
    StartChild,
    TooManyChildren,
    make_child_id,
)
from headway.core.command.run.claim import ClaimedRun
from headway.core.command.run.end_run import Expire
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail, Settled
from headway.core.command.run.submit import Accepted, Busy
from headway.core.command.run.wait import ReleaseSlot, Retry
from headway.core.ids import Instant, RunId, add_seconds
from headway.core.run.explain import Gate, explain
from headway.core.run.run import FilesOnCancel, Recovery
from headway.core.run.status import RunStatus
from headway.services.end_children import end_children
from headway.services.engine.sweep import sweep
from headway.testing import FakeClock, a_submit, an_error, claim_of
from headway.testing.locks import NO_LOCKS
from tests.contract.backends import read_all
from tests.contract.doctor_scene import violations
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_run,
    orphan_run,
    raise_limit,
    read_record,
    read_run,
    read_status,
    register_instance,
    start_run,
    submit_run,
)


def a_child(
    parent: ClaimedRun, step: str = "first", *, key: str = "", limit: int = 9, **options: Any
) -> StartChild:
    """Return a child of `parent`, with a key of its own unless `key` is given."""
    run_id = make_child_id(parent.run_id, step, parent.attempt)
    submission = a_submit(key or run_id, run_id=run_id, parent_id=parent.run_id, **options)
    return StartChild(
        claim=claim_of(parent),
        attempt=parent.attempt,
        step=step,
        submission=submission,
        active_count_max=limit,
    )


async def start_child(
    store: SqlStore, parent: ClaimedRun, step: str = "first", **options: Any
) -> RunId:
    answer = await store.apply(a_child(parent, step, **options))
    assert isinstance(answer, Accepted), answer
    return answer.run_id


@pytest.mark.proves("I3")
async def test_child_is_a_run_of_its_own_that_records_its_parent(store: SqlStore) -> None:
    parent = await start_run(store)
    child = await read_run(store, await start_child(store, parent, params={"n": 1}))
    assert (child.parent_id, child.child_of) == (parent.run_id, parent.run_id)
    assert child.status is RunStatus.QUEUED
    assert (await read_run(store, parent.run_id)).is_parent == 1
    assert await store.runs.ancestors(child.id, limit=9) == [await read_run(store, parent.run_id)]


@pytest.mark.proves("I6")
async def test_next_execution_of_the_parent_finds_its_children(store: SqlStore) -> None:
    parent = await start_run(store)
    child_ids = [await start_child(store, parent, step) for step in ("first", "second")]
    assert await store.apply(a_child(parent)) == ChildFound(child_ids[0])
    await orphan_run(store, parent.run_id)
    again = await claim_run(store, await register_instance(store))
    assert again.run_id == parent.run_id
    before = await read_all(store)
    answers = [await store.apply(a_child(again, step)) for step in ("first", "second")]
    assert answers == [ChildFound(child_id) for child_id in child_ids]
    assert await read_all(store) == before


@pytest.mark.proves("I6")
async def test_failed_child_is_found_by_the_same_attempt(store: SqlStore) -> None:
    parent = await start_run(store)
    child_id = await start_child(store, parent)
    await store.apply(RequestCancel(run_id=child_id))
    await orphan_run(store, parent.run_id)
    again = await claim_run(store, await register_instance(store))
    assert await store.apply(a_child(again)) == ChildFound(child_id)


@pytest.mark.proves("R2.6")
async def test_retry_keeps_successful_children_and_starts_failed_ones_again(
    store: SqlStore,
) -> None:
    await raise_limit(store, 9)
    parent = await start_run(store)
    failed, good, active = [await start_child(store, parent, step) for step in ("a", "b", "c")]
    holder = await register_instance(store)
    for run_id, outcome in ((failed, Fail), (good, Complete)):
        run = await claim_run(store, holder)
        assert run.run_id == run_id
        assert isinstance(await store.apply(outcome(claim_of(run), an_error())), Settled)
    assert await store.apply(Retry(claim_of(parent), an_error(), 0.0))
    again = await claim_run(store, await register_instance(store))
    assert (again.run_id, again.attempt) == (parent.run_id, 2)
    answers = [await store.apply(a_child(again, step)) for step in ("a", "b", "c")]
    assert isinstance(answers[0], Accepted)
    assert answers[1:] == [ChildFound(good), ChildFound(active)]
    new_id = answers[0].run_id
    assert await store.apply(a_child(again, "a")) == ChildFound(new_id)
    assert new_id != failed


@pytest.mark.proves("I15")
async def test_step_name_used_for_another_job_is_refused(store: SqlStore) -> None:
    parent = await start_run(store)
    child_id = await start_child(store, parent)
    answer = await store.apply(a_child(parent, job="fetch"))
    assert answer == ChildMismatch(child_id, "mirror")


@pytest.mark.proves("R2.1")
async def test_refused_child_is_returned_to_the_parent_and_not_recorded(
    store: SqlStore,
) -> None:
    parent, busy_id = await start_run(store), await submit_run(store, "bob")
    before = await read_all(store)
    assert await store.apply(a_child(parent, key="bob")) == Busy(busy_id)
    assert await read_all(store) == before
    await store.apply(RequestCancel(run_id=busy_id))
    await start_child(store, parent, key="bob")


@pytest.mark.proves("I2")
async def test_only_the_holder_of_a_running_parent_starts_children(store: SqlStore) -> None:
    parent = await start_run(store)
    old = a_child(parent)
    await orphan_run(store, parent.run_id)
    again = await claim_run(store, await register_instance(store))
    assert await store.apply(old) == ParentNotRunning()
    await store.apply(RequestCancel(run_id=parent.run_id))
    assert await store.apply(a_child(again)) == ParentNotRunning()


@pytest.mark.proves("I19")
async def test_number_of_active_children_is_limited(store: SqlStore) -> None:
    parent = await start_run(store)
    answers = await apply_in_one_batch(
        store, *(a_child(parent, step, limit=2) for step in ("a", "b", "c", "a"))
    )
    assert [type(answer) for answer in answers] == [Accepted, Accepted, TooManyChildren, ChildFound]
    cancel = RequestCancel(run_id=answers[0].run_id)
    _, answer = await apply_in_one_batch(store, cancel, a_child(parent, "c", limit=2))
    assert isinstance(answer, Accepted)
    assert await store.apply(a_child(parent, "d", limit=2)) == TooManyChildren(2)
    assert len(await store.runs.children_to_cancel(parent.run_id, limit=9)) == 2


Ending = Callable[[SqlStore, FakeClock, ClaimedRun], Awaitable[Any]]


async def _abandon(store: SqlStore, _: FakeClock, parent: ClaimedRun) -> None:
    holder = (await read_run(store, parent.run_id)).instance_id
    assert holder is not None
    assert await store.apply(DeclareDead(holder, is_proven=True))
    assert await store.apply(ReleaseOrphan(parent.run_id, holder))


async def _time_out(store: SqlStore, clock: FakeClock, parent: ClaimedRun) -> None:
    clock.advance(10)
    assert await store.apply(Expire(parent.run_id))


async def _force(store: SqlStore, clock: FakeClock, parent: ClaimedRun) -> None:
    await store.apply(RequestCancel(run_id=parent.run_id, grace_s=1))
    clock.advance(1)
    assert await store.apply(ForceCancel(parent.run_id))


async def _cancel(store: SqlStore, _: FakeClock, parent: ClaimedRun) -> None:
    await store.apply(RequestCancel(run_id=parent.run_id))
    assert isinstance(await store.apply(ConfirmCancel(claim_of(parent))), Settled)


ENDINGS: dict[str, tuple[Ending, RunStatus]] = {
    "completed": (
        lambda store, _, parent: store.apply(Complete(claim_of(parent))),
        RunStatus.SUCCEEDED,
    ),
    "failed": (
        lambda store, _, parent: store.apply(Fail(claim_of(parent), an_error())),
        RunStatus.FAILED,
    ),
    "abandoned": (_abandon, RunStatus.FAILED),
    "timed_out": (_time_out, RunStatus.TIMED_OUT),
    "canceled": (_cancel, RunStatus.CANCELED),
    "forced": (_force, RunStatus.CANCELED),
    "cancelling": (
        lambda store, _, parent: store.apply(RequestCancel(run_id=parent.run_id)),
        RunStatus.CANCELLING,
    ),
}


@pytest.mark.proves("I11")
@pytest.mark.parametrize("ending", ENDINGS)
async def test_children_end_with_their_parent_whatever_ends_it(
    store: SqlStore, clock: FakeClock, ending: str
) -> None:
    await raise_limit(store, 9)
    end, ended_as = ENDINGS[ending]
    parent = await start_run(store, timeout_s=10, recovery=Recovery.FAIL)
    queued, held, over = [await start_child(store, parent, step) for step in ("a", "b", "c")]
    await store.apply(RequestCancel(run_id=over))
    await store.apply(RequestCancel(run_id=queued))
    claimed_run = await claim_run(store, await register_instance(store))
    assert claimed_run.run_id == held
    queued = await start_child(store, parent, "d")
    await end(store, clock, parent)
    assert await read_status(store, parent.run_id) is ended_as
    await sweep(store, store.runs, NO_LOCKS)
    assert await read_status(store, queued) is RunStatus.CANCELED
    assert await read_status(store, held) is RunStatus.CANCELLING
    stored_cancel = (await read_record(store, held)).cancel
    assert stored_cancel is not None
    assert '"reason":"parent_ended"' in stored_cancel
    assert await violations(store, clock) == []
    assert isinstance(await store.apply(ConfirmCancel(claim_of(claimed_run))), Settled)
    run = await read_run(store, parent.run_id)
    assert (run.is_parent, run.children_ending_since) == (0, None)
    assert run.due_at == run.cancel_deadline_at


@pytest.mark.proves("I11")
async def test_children_of_a_retried_run_continue(store: SqlStore) -> None:
    parent = await start_run(store)
    child_id = await start_child(store, parent)
    await end_children(store, store.runs, parent.run_id)
    cancel = CancelChild(run_id=child_id, parent_id=parent.run_id)
    assert await store.apply(cancel) is CancelResult.TOO_LATE
    assert await store.apply(ConfirmChildrenEnded(parent.run_id)) is False
    assert await read_status(store, child_id) is RunStatus.QUEUED
    assert (await read_run(store, parent.run_id)).is_parent == 1


@pytest.mark.proves("I11")
async def test_cancel_reaches_all_generations_with_its_options(
    store: SqlStore, clock: FakeClock
) -> None:
    await raise_limit(store, 9)
    family = [await start_run(store)]
    for _ in range(3):
        child_id = await start_child(store, family[-1])
        family.append(await claim_run(store, await register_instance(store)))
        assert family[-1].run_id == child_id
    top = family[0].run_id
    cancel = RequestCancel(run_id=top, files=FilesOnCancel.DELETE, by="eve", grace_s=5)
    assert await store.apply(cancel) is CancelResult.REQUESTED
    await end_children(store, store.runs, top)
    for run in family[1:]:
        stored = await read_record(store, run.run_id)
        assert stored.run.status is RunStatus.CANCELLING
        assert stored.run.cancel_deadline_at == add_seconds(clock(), seconds=5)
        assert stored.cancel == '{"files":"delete","reason":"parent_ended","by":"eve"}'


@pytest.mark.proves("I19")
async def test_children_of_an_ended_parent_are_ended_in_small_batches(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.services.end_children.CHILD_BATCH_SIZE", 3)
    monkeypatch.setattr("headway.services.end_children.STEP_COUNT_MAX", 2)
    parent = await start_run(store)
    for number in range(10):
        await start_child(store, parent, str(number), limit=99)
    await store.apply(Fail(claim_of(parent), an_error()))
    remaining = [10]
    while remaining[-1]:
        await sweep(store, store.runs, NO_LOCKS)
        remaining.append(len(await store.runs.children_to_cancel(parent.run_id, limit=99)))
    assert len(remaining) > 3
    assert remaining == sorted(remaining, reverse=True)


@pytest.mark.proves("I19")
async def test_children_of_an_active_parent_and_a_parent_of_active_children_are_not_pruned(
    store: SqlStore, clock: FakeClock
) -> None:
    parent = await start_run(store)
    over, active = [await start_child(store, parent, step) for step in ("a", "b")]
    await store.apply(RequestCancel(run_id=over))
    later = Instant(clock() + 1)
    clock.advance(1)
    assert await store.apply(PruneRuns((over,), ended_before=later)) == 0
    await store.apply(Complete(claim_of(parent)))
    later = Instant(clock() + 1)
    assert await store.apply(PruneRuns((over, parent.run_id), ended_before=later)) == 1
    await end_children(store, store.runs, parent.run_id)
    assert await store.apply(PruneRuns((active, parent.run_id), ended_before=later)) == 2


async def test_explain_names_the_child_of_a_parent_and_the_parent_of_a_child(
    store: SqlStore, clock: FakeClock
) -> None:
    parent = await start_run(store)
    child_id = await start_child(store, parent)
    await store.apply(ReleaseSlot(claim_of(parent)))
    situation = await store.runs.situation(parent.run_id)
    assert situation is not None
    explanation = explain(situation, clock())
    assert (explanation.gate, explanation.holder_ids) == (Gate.CHILD, (child_id,))
    assert child_id in explanation.sentence
    situation = await store.runs.situation(child_id)
    assert situation is not None
    explanation = explain(situation, clock())
    assert explanation.parent_id == parent.run_id
    assert f"It is a child of run {parent.run_id}." in explanation.sentence


@pytest.mark.proves("I11")
async def test_doctor_reports_a_child_that_did_not_end_with_its_parent(
    store: SqlStore, clock: FakeClock
) -> None:
    parent = await start_run(store)
    child_id = await start_child(store, parent)
    await store.apply(Complete(claim_of(parent)))
    assert await violations(store, clock) == []  # The sweep has not ended the child yet.
    assert await store.apply(ConfirmChildrenEnded(parent.run_id))
    sentence = f"it is active, but its parent {parent.run_id} has ended or is cancelling"
    assert await violations(store, clock) == [("I11", f"run {child_id}", sentence)]
