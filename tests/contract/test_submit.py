"""Submit: the recorded values, and the outcome when the key is busy."""

import asyncio
import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.inbox import UNREAD_COUNT_MAX
from headway.core.command.run.report import SetWindow
from headway.core.command.run.settle import Complete, ConfirmCancel
from headway.core.command.run.submit import Accepted, Busy, Joined, LaneQueueFull, Steered
from headway.core.command.run.wait import Park
from headway.core.ids import LaneName, RunId, add_seconds
from headway.core.lane_row import LaneRow
from headway.core.run.admission import OnConflict
from headway.core.run.run import Recovery, RunMode
from headway.core.run.status import RunStatus
from headway.core.run.window import Window
from headway.testing import FakeClock, a_claim, a_message, a_submit, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    apply_in_one_batch,
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


@pytest.mark.proves("R1.1")
async def test_submission_is_stored_with_its_run(store: SqlStore, clock: FakeClock) -> None:
    submission = a_submit(
        "ann",
        job="fetch",
        params={"url": "https://example.org", "kinds": ["jpg"]},
        lane="slow",
        queue_timeout_s=60,
        timeout_s=1.5,
        recovery=Recovery.FAIL,
        parent_id=RunId("parent"),
    )
    assert await store.apply(submission) == Accepted(submission.run_id, 1)
    stored = await read_record(store, submission.run_id)
    assert json.loads(stored.params) == {"url": "https://example.org", "kinds": ["jpg"]}
    assert (stored.progress, stored.checkpoint, stored.result, stored.error) == (
        None,
        None,
        None,
        None,
    )
    run = stored.run
    assert (run.key, run.job, run.lane, run.mode) == ("ann", "fetch", "slow", RunMode.START)
    assert (run.status, run.queued_at, run.started_at) == (RunStatus.QUEUED, clock(), None)
    assert (run.queue_deadline_at, run.timeout_us) == (add_seconds(clock(), seconds=60), 1_500_000)
    assert (run.recovery, run.parent_id, run.continued_from) == (Recovery.FAIL, "parent", None)
    assert await read_transitions(store, run.id) == [(None, "queued")]


@pytest.mark.proves("R1.1")
async def test_parameters_are_those_at_the_time_of_submission(store: SqlStore) -> None:
    params = {"page": 1}
    run_id = await submit_run(store, params=params)
    params["page"] = 2
    assert (await claim_run(store, await register_instance(store))).params == '{"page":1}'
    assert (await read_record(store, run_id)).params == '{"page":1}'


@pytest.mark.proves("R1.1")
async def test_times_of_a_run_are_recorded(store: SqlStore, clock: FakeClock) -> None:
    queued_at = clock()
    await submit_run(store)
    started_at = clock.advance(5)
    run = await claim_run(store, await register_instance(store))
    ended_at = clock.advance(7)
    await store.apply(Complete(claim_of(run), document({"files": 3})))
    stored = await read_record(store, run.run_id)
    assert (stored.run.queued_at, stored.run.started_at, stored.run.ended_at) == (
        queued_at,
        started_at,
        ended_at,
    )
    assert stored.result == '{"files":3}'


@pytest.mark.proves("R1.5")
async def test_reject_names_the_active_run_and_changes_nothing(store: SqlStore) -> None:
    active = await submit_run(store)
    before = await read_all(store)
    assert await store.apply(a_submit(job="other", lane="new")) == Busy(active)
    assert await read_all(store) == before


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("source", ["queued", "running", "cancelling", "parked"])
async def test_key_is_busy_until_its_run_has_ended(store: SqlStore, source: str) -> None:
    if source == "queued":
        active = await submit_run(store)
    else:
        run = await start_run(store)
        active = run.run_id
        if source == "cancelling":
            await store.apply(RequestCancel(run_id=active))
        elif source == "parked":
            assert await store.apply(Park(claim_of(run)))
    assert await store.apply(a_submit()) == Busy(active)


@pytest.mark.proves("R1.5")
async def test_one_of_a_hundred_simultaneous_submissions_is_accepted(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Half of them come through another store, as from another process; fifty rounds."""
    stores = (store, another_store)
    for number in range(50):
        key = f"key-{number}"
        answers = await asyncio.gather(*(stores[n % 2].apply(a_submit(key)) for n in range(100)))
        accepted = [answer for answer in answers if isinstance(answer, Accepted)]
        assert len(accepted) == 1
        busy = [answer for answer in answers if isinstance(answer, Busy)]
        assert len(busy) == 99
        assert {answer.active_run_id for answer in busy} == {accepted[0].run_id}


@pytest.mark.proves("R1.5")
async def test_enqueue_joins_the_queue_of_its_key(store: SqlStore) -> None:
    first = await submit_run(store)
    second = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    third = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    holder = await register_instance(store)
    for expected in (first, second, third):
        (run,) = await claim_runs(store, a_claim(holder, count=10))
        assert run.run_id == expected
        await store.apply(Complete(claim_of(run)))


@pytest.mark.proves("R1.5")
async def test_replace_cancels_all_active_runs_and_starts_after_them(store: SqlStore) -> None:
    run = await start_run(store)
    queued = [await submit_run(store, on_conflict=OnConflict.ENQUEUE) for _ in range(2)]
    newest = await submit_run(store, on_conflict=OnConflict.REPLACE, by="bob")
    assert await read_status(store, run.run_id) is RunStatus.CANCELLING
    assert [await read_status(store, run_id) for run_id in queued] == [RunStatus.CANCELED] * 2
    cancel = (await read_record(store, run.run_id)).cancel
    assert cancel is not None
    assert json.loads(cancel) == {"files": "keep", "reason": "replaced", "by": "bob"}
    holder = await register_instance(store)
    assert await claim_runs(store, a_claim(holder)) == ()
    await store.apply(ConfirmCancel(claim_of(run)))
    assert (await claim_run(store, holder)).run_id == newest


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("source", ["queued", "orphaned"])
async def test_replace_takes_over_from_a_run_without_a_holder_at_once(
    store: SqlStore, source: str
) -> None:
    if source == "queued":
        old = await submit_run(store)
    else:
        old = (await start_run(store)).run_id
        await orphan_run(store, old)
    newest = await submit_run(store, on_conflict=OnConflict.REPLACE)
    assert await read_status(store, old) is RunStatus.CANCELED
    assert (await read_run(store, newest)).head_key == "ann"
    assert (await claim_run(store, await register_instance(store))).run_id == newest


@pytest.mark.proves("R1.5")
async def test_join_returns_the_active_run(store: SqlStore) -> None:
    active = await submit_run(store)
    before = await read_all(store)
    assert await store.apply(a_submit(on_conflict=OnConflict.JOIN)) == Joined(active)
    assert await read_all(store) == before


@pytest.mark.proves("R1.5")
async def test_steer_posts_to_a_run_that_accepts_messages(store: SqlStore) -> None:
    run = await start_run(store)
    assert await store.apply(SetWindow(claim_of(run), Window.STREAMING))
    steering = a_submit(params={"say": "left"}, on_conflict=OnConflict.STEER, by="bob")
    answer = await store.apply(steering)
    assert isinstance(answer, Steered)
    assert answer.run_id == run.run_id
    (item,) = await store.runs.inbox(run.run_id)
    assert (item.seq, item.kind, item.payload) == (answer.inbox_seq, "message", '{"say":"left"}')
    assert (item.by, item.consumed_generation) == ("bob", None)
    assert await store.runs.run(steering.run_id) is None


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("source", ["queued", "deaf", "full"])
async def test_steer_queues_behind_a_run_that_accepts_no_messages(
    store: SqlStore, source: str
) -> None:
    if source == "queued":
        await submit_run(store)
    else:
        run = await start_run(store)
        await store.apply(
            SetWindow(claim_of(run), Window.STREAMING if source == "full" else Window.NONE)
        )
        if source == "full":
            posts = [a_message(run.run_id) for _ in range(UNREAD_COUNT_MAX)]
            await apply_in_one_batch(store, *posts)
    behind = await submit_run(store, on_conflict=OnConflict.STEER)
    assert (await read_run(store, behind)).waiting_key == "ann"


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("on_conflict", OnConflict)
async def test_every_conflict_policy_accepts_a_run_of_an_idle_key(
    store: SqlStore, on_conflict: OnConflict
) -> None:
    run_id = await submit_run(store, on_conflict=on_conflict)
    assert (await read_run(store, run_id)).head_key == "ann"


# A lane with a limit of queued runs.


async def set_max_queued(store: SqlStore, max_queued: int) -> LaneRow:
    answer = await store.apply(SetLane(name=LaneName("main"), max_queued=max_queued))
    assert isinstance(answer, LaneRow)
    return answer


@pytest.mark.proves("R1.3")
async def test_max_queued_counts_only_runs_that_must_wait(store: SqlStore) -> None:
    """Three slots are free, so the lane accepts three runs more than `max_queued`."""
    await set_max_queued(store, 2)
    for number in range(5):
        await submit_run(store, f"key-{number}")
    before = await read_all(store)
    assert await store.apply(a_submit("late", lane="main")) == LaneQueueFull(LaneName("main"), 2)
    assert await read_all(store) == before
    await claim_runs(store, a_claim(await register_instance(store), count=10))
    assert (await read_lane(store)).queued_count == 2
    assert await store.apply(a_submit("late")) == LaneQueueFull(LaneName("main"), 2)


@pytest.mark.proves("R1.3")
async def test_lane_accepts_the_next_run_when_it_has_room_again(store: SqlStore) -> None:
    await set_max_queued(store, 0)
    holder = await register_instance(store)
    runs = [await start_run(store, f"key-{number}", by=holder) for number in range(3)]
    assert isinstance(await store.apply(a_submit("late")), LaneQueueFull)
    await store.apply(Complete(claim_of(runs[0])))
    await submit_run(store, "late")
    assert isinstance(await store.apply(a_submit("later")), LaneQueueFull)
    await set_max_queued(store, -1)
    await submit_run(store, "later")


@pytest.mark.proves("R1.3")
async def test_replace_needs_no_room_for_the_runs_it_cancels(store: SqlStore) -> None:
    await set_max_queued(store, 0)
    for number in range(3):
        await submit_run(store, f"key-{number}")
    assert isinstance(await store.apply(a_submit("key-4")), LaneQueueFull)
    await submit_run(store, "key-1", on_conflict=OnConflict.REPLACE)


@pytest.mark.proves("R1.3")
async def test_simultaneous_submissions_never_overfill_the_queue(
    store: SqlStore, another_store: SqlStore
) -> None:
    await set_max_queued(store, 4)
    stores = (store, another_store)
    answers = await asyncio.gather(*(stores[n % 2].apply(a_submit(f"key-{n}")) for n in range(30)))
    assert sum(isinstance(answer, Accepted) for answer in answers) == 3 + 4
    assert sum(isinstance(answer, LaneQueueFull) for answer in answers) == 30 - 7


# Refusals of unattended submissions.


@pytest.mark.proves("R2.1")
async def test_refused_unattended_submission_is_recorded_as_a_rejected_run(
    store: SqlStore, clock: FakeClock
) -> None:
    active = await submit_run(store)
    before = await read_record(store, active)
    refused = a_submit(is_unattended=True, params={"tick": 1})
    assert await store.apply(refused) == Busy(active)
    stored = await read_record(store, refused.run_id)
    assert (stored.run.status, stored.run.ended_at) == (RunStatus.REJECTED, clock())
    assert (stored.run.head_key, stored.run.waiting_key, stored.run.due_at) == (None, None, None)
    assert stored.params == '{"tick":1}'
    (event,) = await read_events(store, refused.run_id)
    assert json.loads(event.payload) == {"from": None, "to": "rejected", "reason": "busy"}
    assert await read_record(store, active) == before


@pytest.mark.proves("R2.1")
async def test_full_lane_rejects_an_unattended_submission(store: SqlStore) -> None:
    await store.apply(SetLane(name=LaneName("main"), max_concurrent=0, max_queued=0))
    refused = a_submit(is_unattended=True, queue_timeout_s=5)
    assert isinstance(await store.apply(refused), LaneQueueFull)
    assert await read_status(store, refused.run_id) is RunStatus.REJECTED
    assert (await read_run(store, refused.run_id)).due_at is None
    (event,) = await read_events(store, refused.run_id)
    assert json.loads(event.payload)["reason"] == "no_room"
    # The key is still free.
    await store.apply(SetLane(name=LaneName("main"), max_queued=-1))
    await submit_run(store)


@pytest.mark.proves("R2.1")
async def test_rejected_run_is_never_continued(store: SqlStore) -> None:
    """This holds for a rejected run in the table and for one rejected in the same batch."""
    first = await submit_run(store)
    await store.apply(a_submit(is_unattended=True))
    later_on = a_submit(mode=RunMode.CONTINUE, on_conflict=OnConflict.ENQUEUE)
    await apply_in_one_batch(store, a_submit(is_unattended=True), later_on)
    assert (await read_run(store, later_on.run_id)).continued_from == first
