"""Children: started once by whoever executes the parent, found again, and ended with it."""

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
from headway.core.command.run.expire import Expire
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
from tests.contract.examined import violations
from tests.contract.scenes import (
    claimed_one,
    instance,
    orphaned,
    raise_limit,
    record,
    running,
    state,
    status,
    submitted,
    together,
)


def a_child(
    parent: ClaimedRun, step: str = "first", *, key: str = "", limit: int = 9, **wanted: Any
) -> StartChild:
    """A child of `parent`, with a key of its own unless told."""
    run_id = make_child_id(parent.run_id, step, parent.attempt)
    submission = a_submit(key or run_id, run_id=run_id, parent_id=parent.run_id, **wanted)
    return StartChild(
        claim=claim_of(parent),
        attempt=parent.attempt,
        step=step,
        submission=submission,
        active_count_max=limit,
    )


async def started(store: SqlStore, parent: ClaimedRun, step: str = "first", **wanted: Any) -> RunId:
    answer = await store.apply(a_child(parent, step, **wanted))
    assert isinstance(answer, Accepted), answer
    return answer.run_id


@pytest.mark.proves("I3")
async def test_a_child_is_a_run_of_its_own_that_knows_its_parent(store: SqlStore) -> None:
    parent = await running(store)
    child = await state(store, await started(store, parent, params={"n": 1}))
    assert (child.parent_id, child.child_of) == (parent.run_id, parent.run_id)
    assert child.status is RunStatus.QUEUED
    assert (await state(store, parent.run_id)).is_parent == 1
    assert await store.runs.ancestors(child.id, limit=9) == [await state(store, parent.run_id)]


@pytest.mark.proves("I6")
async def test_who_executes_the_parent_again_finds_its_children(store: SqlStore) -> None:
    parent = await running(store)
    child_ids = [await started(store, parent, step) for step in ("first", "second")]
    assert await store.apply(a_child(parent)) == ChildFound(child_ids[0])
    await orphaned(store, parent.run_id)
    again = await claimed_one(store, await instance(store))
    assert again.run_id == parent.run_id
    before = await read_all(store)
    answers = [await store.apply(a_child(again, step)) for step in ("first", "second")]
    assert answers == [ChildFound(child_id) for child_id in child_ids]
    assert await read_all(store) == before


@pytest.mark.proves("I6")
async def test_a_child_that_failed_is_found_by_the_same_attempt(store: SqlStore) -> None:
    parent = await running(store)
    child_id = await started(store, parent)
    await store.apply(RequestCancel(run_id=child_id))
    await orphaned(store, parent.run_id)
    again = await claimed_one(store, await instance(store))
    assert await store.apply(a_child(again)) == ChildFound(child_id)


@pytest.mark.proves("R2.6")
async def test_a_retry_keeps_what_is_good_and_starts_anew_what_failed(
    store: SqlStore,
) -> None:
    await raise_limit(store, 9)
    parent = await running(store)
    failed, good, active = [await started(store, parent, step) for step in ("a", "b", "c")]
    holder = await instance(store)
    for run_id, outcome in ((failed, Fail), (good, Complete)):
        one = await claimed_one(store, holder)
        assert one.run_id == run_id
        assert isinstance(await store.apply(outcome(claim_of(one), an_error())), Settled)
    assert await store.apply(Retry(claim_of(parent), an_error(), 0.0))
    again = await claimed_one(store, await instance(store))
    assert (again.run_id, again.attempt) == (parent.run_id, 2)
    answers = [await store.apply(a_child(again, step)) for step in ("a", "b", "c")]
    assert isinstance(answers[0], Accepted)
    assert answers[1:] == [ChildFound(good), ChildFound(active)]
    new_id = answers[0].run_id
    assert await store.apply(a_child(again, "a")) == ChildFound(new_id)
    assert new_id != failed


@pytest.mark.proves("I15")
async def test_a_name_that_stands_for_another_job_is_refused(store: SqlStore) -> None:
    parent = await running(store)
    child_id = await started(store, parent)
    answer = await store.apply(a_child(parent, job="fetch"))
    assert answer == ChildMismatch(child_id, "mirror")


@pytest.mark.proves("R2.1")
async def test_a_refused_child_is_the_parents_to_deal_with_and_not_recorded(
    store: SqlStore,
) -> None:
    parent, busy_id = await running(store), await submitted(store, "bob")
    before = await read_all(store)
    assert await store.apply(a_child(parent, key="bob")) == Busy(busy_id)
    assert await read_all(store) == before
    await store.apply(RequestCancel(run_id=busy_id))
    await started(store, parent, key="bob")


@pytest.mark.proves("I2")
async def test_only_the_holder_of_a_running_parent_starts_children(store: SqlStore) -> None:
    parent = await running(store)
    old = a_child(parent)
    await orphaned(store, parent.run_id)
    again = await claimed_one(store, await instance(store))
    assert await store.apply(old) == ParentNotRunning()
    await store.apply(RequestCancel(run_id=parent.run_id))
    assert await store.apply(a_child(again)) == ParentNotRunning()


@pytest.mark.proves("I19")
async def test_a_parent_has_so_many_active_children_and_no_more(store: SqlStore) -> None:
    parent = await running(store)
    answers = await together(
        store, *(a_child(parent, step, limit=2) for step in ("a", "b", "c", "a"))
    )
    assert [type(answer) for answer in answers] == [Accepted, Accepted, TooManyChildren, ChildFound]
    cancel = RequestCancel(run_id=answers[0].run_id)
    _, answer = await together(store, cancel, a_child(parent, "c", limit=2))
    assert isinstance(answer, Accepted)
    assert await store.apply(a_child(parent, "d", limit=2)) == TooManyChildren(2)
    assert len(await store.runs.active_children(parent.run_id, limit=9)) == 2


Ending = Callable[[SqlStore, FakeClock, ClaimedRun], Awaitable[Any]]


async def _abandon(store: SqlStore, _: FakeClock, parent: ClaimedRun) -> None:
    holder = (await state(store, parent.run_id)).instance_id
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
async def test_however_a_parent_ends_its_children_end_with_it(
    store: SqlStore, clock: FakeClock, ending: str
) -> None:
    await raise_limit(store, 9)
    end, ended_as = ENDINGS[ending]
    parent = await running(store, timeout_s=10, recovery=Recovery.FAIL)
    queued, held, over = [await started(store, parent, step) for step in ("a", "b", "c")]
    await store.apply(RequestCancel(run_id=over))
    await store.apply(RequestCancel(run_id=queued))
    one = await claimed_one(store, await instance(store))
    assert one.run_id == held
    queued = await started(store, parent, "d")
    await end(store, clock, parent)
    assert await status(store, parent.run_id) is ended_as
    await sweep(store, store.runs, NO_LOCKS)
    assert await status(store, queued) is RunStatus.CANCELED
    assert await status(store, held) is RunStatus.CANCELLING
    told = (await record(store, held)).cancel
    assert told is not None
    assert '"reason":"parent_ended"' in told
    assert await violations(store, clock) == []
    assert isinstance(await store.apply(ConfirmCancel(claim_of(one))), Settled)
    run = await state(store, parent.run_id)
    assert (run.is_parent, run.children_ending_since) == (0, None)
    assert run.due_at == run.cancel_deadline_at


@pytest.mark.proves("I11")
async def test_the_children_of_a_run_that_goes_on_are_left_alone(store: SqlStore) -> None:
    parent = await running(store)
    child_id = await started(store, parent)
    await end_children(store, store.runs, parent.run_id)
    cancel = CancelChild(run_id=child_id, parent_id=parent.run_id)
    assert await store.apply(cancel) is CancelResult.TOO_LATE
    assert await store.apply(ConfirmChildrenEnded(parent.run_id)) is False
    assert await status(store, child_id) is RunStatus.QUEUED
    assert (await state(store, parent.run_id)).is_parent == 1


@pytest.mark.proves("I11")
async def test_a_cancel_goes_down_all_generations_with_its_terms(
    store: SqlStore, clock: FakeClock
) -> None:
    await raise_limit(store, 9)
    family = [await running(store)]
    for _ in range(3):
        child_id = await started(store, family[-1])
        family.append(await claimed_one(store, await instance(store)))
        assert family[-1].run_id == child_id
    top = family[0].run_id
    wanted = RequestCancel(run_id=top, files=FilesOnCancel.DELETE, by="eve", grace_s=5)
    assert await store.apply(wanted) is CancelResult.REQUESTED
    await end_children(store, store.runs, top)
    for one in family[1:]:
        found = await record(store, one.run_id)
        assert found.run.status is RunStatus.CANCELLING
        assert found.run.cancel_deadline_at == add_seconds(clock(), seconds=5)
        assert found.cancel == '{"files":"delete","reason":"parent_ended","by":"eve"}'


@pytest.mark.proves("I19")
async def test_many_children_end_a_few_at_a_time(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.services.end_children.CHILD_BATCH_SIZE", 3)
    monkeypatch.setattr("headway.services.end_children.STEP_COUNT_MAX", 2)
    parent = await running(store)
    for number in range(10):
        await started(store, parent, str(number), limit=99)
    await store.apply(Fail(claim_of(parent), an_error()))
    left = [10]
    while left[-1]:
        await sweep(store, store.runs, NO_LOCKS)
        left.append(len(await store.runs.active_children(parent.run_id, limit=99)))
    assert len(left) > 3
    assert left == sorted(left, reverse=True)


@pytest.mark.proves("I19")
async def test_an_active_parent_keeps_its_children_and_a_parent_its_duty(
    store: SqlStore, clock: FakeClock
) -> None:
    parent = await running(store)
    over, active = [await started(store, parent, step) for step in ("a", "b")]
    await store.apply(RequestCancel(run_id=over))
    late = Instant(clock() + 1)
    clock.advance(1)
    assert await store.apply(PruneRuns((over,), ended_before=late)) == 0
    await store.apply(Complete(claim_of(parent)))
    late = Instant(clock() + 1)
    assert await store.apply(PruneRuns((over, parent.run_id), ended_before=late)) == 1
    await end_children(store, store.runs, parent.run_id)
    assert await store.apply(PruneRuns((active, parent.run_id), ended_before=late)) == 2


async def test_explain_names_the_child_and_the_parent(store: SqlStore, clock: FakeClock) -> None:
    parent = await running(store)
    child_id = await started(store, parent)
    await store.apply(ReleaseSlot(claim_of(parent)))
    situation = await store.runs.situation(parent.run_id)
    assert situation is not None
    found = explain(situation, clock())
    assert (found.gate, found.holder_ids) == (Gate.CHILD, (child_id,))
    assert child_id in found.sentence
    situation = await store.runs.situation(child_id)
    assert situation is not None
    found = explain(situation, clock())
    assert found.parent_id == parent.run_id
    assert f"It is a child of run {parent.run_id}." in found.sentence


@pytest.mark.proves("I11")
async def test_the_doctor_names_a_child_that_was_forgotten(
    store: SqlStore, clock: FakeClock
) -> None:
    parent = await running(store)
    child_id = await started(store, parent)
    await store.apply(Complete(claim_of(parent)))
    assert await violations(store, clock) == []  # The sweep has yet to see to it.
    assert await store.apply(ConfirmChildrenEnded(parent.run_id))
    sentence = f"it goes on, but its parent {parent.run_id} does not"
    assert await violations(store, clock) == [("I11", f"run {child_id}", sentence)]
