"""Submit: what is recorded, and what happens when the key is busy."""

import asyncio
import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.set_lane import SetLane
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
    together,
)


@pytest.mark.proves("R1.1")
async def test_a_run_records_what_was_asked_for(store: SqlStore, clock: FakeClock) -> None:
    wanted = a_submit(
        "ann",
        job="fetch",
        params={"url": "https://example.org", "kinds": ["jpg"]},
        lane="slow",
        queue_timeout_s=60,
        timeout_s=1.5,
        recovery=Recovery.FAIL,
        parent_id=RunId("parent"),
    )
    assert await store.apply(wanted) == Accepted(wanted.run_id, 1)
    kept = await record(store, wanted.run_id)
    assert json.loads(kept.params) == {"url": "https://example.org", "kinds": ["jpg"]}
    assert (kept.progress, kept.checkpoint, kept.result, kept.error) == (None, None, None, None)
    run = kept.run
    assert (run.key, run.job, run.lane, run.mode) == ("ann", "fetch", "slow", RunMode.START)
    assert (run.status, run.queued_at, run.started_at) == (RunStatus.QUEUED, clock(), None)
    assert (run.queue_deadline_at, run.timeout_us) == (add_seconds(clock(), seconds=60), 1_500_000)
    assert (run.recovery, run.parent_id, run.continued_from) == (Recovery.FAIL, "parent", None)
    assert await moves(store, run.id) == [(None, "queued")]


@pytest.mark.proves("R1.1")
async def test_the_parameters_are_those_of_the_moment(store: SqlStore) -> None:
    params = {"page": 1}
    run_id = await submitted(store, params=params)
    params["page"] = 2
    assert (await claimed_one(store, await instance(store))).params == '{"page":1}'
    assert (await record(store, run_id)).params == '{"page":1}'


@pytest.mark.proves("R1.1")
async def test_times_follow_the_run(store: SqlStore, clock: FakeClock) -> None:
    queued_at = clock()
    await submitted(store)
    started_at = clock.advance(5)
    one = await claimed_one(store, await instance(store))
    ended_at = clock.advance(7)
    await store.apply(Complete(claim_of(one), document({"files": 3})))
    kept = await record(store, one.run_id)
    assert (kept.run.queued_at, kept.run.started_at, kept.run.ended_at) == (
        queued_at,
        started_at,
        ended_at,
    )
    assert kept.result == '{"files":3}'


@pytest.mark.proves("R1.5")
async def test_reject_names_the_active_run_and_changes_nothing(store: SqlStore) -> None:
    active = await submitted(store)
    before = await read_all(store)
    assert await store.apply(a_submit(job="other", lane="new")) == Busy(active)
    assert await read_all(store) == before


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("source", ["queued", "running", "cancelling", "parked"])
async def test_a_key_is_busy_until_its_run_has_ended(store: SqlStore, source: str) -> None:
    if source == "queued":
        active = await submitted(store)
    else:
        one = await running(store)
        active = one.run_id
        if source == "cancelling":
            await store.apply(RequestCancel(run_id=active))
        elif source == "parked":
            assert await store.apply(Park(claim_of(one)))
    assert await store.apply(a_submit()) == Busy(active)


@pytest.mark.proves("R1.5")
async def test_of_a_hundred_at_once_one_is_accepted_fifty_times_in_a_row(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Half of them come through another store, as from another process."""
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
async def test_enqueue_joins_the_line_of_its_key(store: SqlStore) -> None:
    first = await submitted(store)
    second = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    third = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    holder = await instance(store)
    for expected in (first, second, third):
        (one,) = await claimed(store, a_claim(holder, count=10))
        assert one.run_id == expected
        await store.apply(Complete(claim_of(one)))


@pytest.mark.proves("R1.5")
async def test_replace_cancels_all_that_are_active_and_comes_after(store: SqlStore) -> None:
    one = await running(store)
    queued = [await submitted(store, on_conflict=OnConflict.ENQUEUE) for _ in range(2)]
    newest = await submitted(store, on_conflict=OnConflict.REPLACE, by="bob")
    assert await status(store, one.run_id) is RunStatus.CANCELLING
    assert [await status(store, run_id) for run_id in queued] == [RunStatus.CANCELED] * 2
    cancel = (await record(store, one.run_id)).cancel
    assert cancel is not None
    assert json.loads(cancel) == {"files": "keep", "reason": "replaced", "by": "bob"}
    holder = await instance(store)
    assert await claimed(store, a_claim(holder)) == ()
    await store.apply(ConfirmCancel(claim_of(one)))
    assert (await claimed_one(store, holder)).run_id == newest


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("source", ["queued", "orphaned"])
async def test_replace_takes_the_place_of_what_nobody_holds_at_once(
    store: SqlStore, source: str
) -> None:
    if source == "queued":
        old = await submitted(store)
    else:
        old = (await running(store)).run_id
        await orphaned(store, old)
    newest = await submitted(store, on_conflict=OnConflict.REPLACE)
    assert await status(store, old) is RunStatus.CANCELED
    assert (await state(store, newest)).head_key == "ann"
    assert (await claimed_one(store, await instance(store))).run_id == newest


@pytest.mark.proves("R1.5")
async def test_join_gives_the_active_run_back(store: SqlStore) -> None:
    active = await submitted(store)
    before = await read_all(store)
    assert await store.apply(a_submit(on_conflict=OnConflict.JOIN)) == Joined(active)
    assert await read_all(store) == before


@pytest.mark.proves("R1.5")
async def test_steer_injects_into_a_run_that_takes_messages(store: SqlStore) -> None:
    one = await running(store)
    assert await store.apply(SetWindow(claim_of(one), Window.STREAMING))
    steering = a_submit(params={"say": "left"}, on_conflict=OnConflict.STEER, by="bob")
    answer = await store.apply(steering)
    assert isinstance(answer, Steered)
    assert answer.run_id == one.run_id
    (item,) = await store.runs.inbox(one.run_id)
    assert (item.seq, item.kind, item.payload) == (answer.inbox_seq, "message", '{"say":"left"}')
    assert (item.by, item.consumed_generation) == ("bob", None)
    assert await store.runs.run(steering.run_id) is None


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("source", ["queued", "deaf", "full"])
async def test_steer_queues_behind_a_run_that_takes_none(store: SqlStore, source: str) -> None:
    if source == "queued":
        await submitted(store)
    else:
        one = await running(store)
        await store.apply(
            SetWindow(claim_of(one), Window.STREAMING if source == "full" else Window.NONE)
        )
        if source == "full":
            posts = [a_message(one.run_id) for _ in range(UNREAD_COUNT_MAX)]
            await together(store, *posts)
    behind = await submitted(store, on_conflict=OnConflict.STEER)
    assert (await state(store, behind)).waiting_key == "ann"


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("on_conflict", OnConflict)
async def test_every_policy_enters_an_idle_key(store: SqlStore, on_conflict: OnConflict) -> None:
    run_id = await submitted(store, on_conflict=on_conflict)
    assert (await state(store, run_id)).head_key == "ann"


# A lane that takes only so many.


async def limit_queue(store: SqlStore, max_queued: int) -> LaneRow:
    answer = await store.apply(SetLane(name=LaneName("main"), max_queued=max_queued))
    assert isinstance(answer, LaneRow)
    return answer


@pytest.mark.proves("R1.3")
async def test_max_queued_counts_those_that_must_wait(store: SqlStore) -> None:
    """Three slots are free, so three more find room than may queue."""
    await limit_queue(store, 2)
    for number in range(5):
        await submitted(store, f"key-{number}")
    before = await read_all(store)
    assert await store.apply(a_submit("late", lane="main")) == LaneQueueFull(LaneName("main"), 2)
    assert await read_all(store) == before
    await claimed(store, a_claim(await instance(store), count=10))
    assert (await lane_view(store)).queued_count == 2
    assert await store.apply(a_submit("late")) == LaneQueueFull(LaneName("main"), 2)


@pytest.mark.proves("R1.3")
async def test_a_queue_with_room_again_takes_the_next(store: SqlStore) -> None:
    await limit_queue(store, 0)
    holder = await instance(store)
    ones = [await running(store, f"key-{number}", by=holder) for number in range(3)]
    assert isinstance(await store.apply(a_submit("late")), LaneQueueFull)
    await store.apply(Complete(claim_of(ones[0])))
    await submitted(store, "late")
    assert isinstance(await store.apply(a_submit("later")), LaneQueueFull)
    await limit_queue(store, -1)
    await submitted(store, "later")


@pytest.mark.proves("R1.3")
async def test_replace_needs_no_room_for_what_it_cancels(store: SqlStore) -> None:
    await limit_queue(store, 0)
    for number in range(3):
        await submitted(store, f"key-{number}")
    assert isinstance(await store.apply(a_submit("key-4")), LaneQueueFull)
    await submitted(store, "key-1", on_conflict=OnConflict.REPLACE)


@pytest.mark.proves("R1.3")
async def test_many_at_once_never_overfill_the_queue(
    store: SqlStore, another_store: SqlStore
) -> None:
    await limit_queue(store, 4)
    stores = (store, another_store)
    answers = await asyncio.gather(*(stores[n % 2].apply(a_submit(f"key-{n}")) for n in range(30)))
    assert sum(isinstance(answer, Accepted) for answer in answers) == 3 + 4
    assert sum(isinstance(answer, LaneQueueFull) for answer in answers) == 30 - 7


# Refusals that nobody is there to hear.


@pytest.mark.proves("R2.1")
async def test_an_unattended_refusal_is_recorded_as_rejected(
    store: SqlStore, clock: FakeClock
) -> None:
    active = await submitted(store)
    before = await record(store, active)
    refused = a_submit(is_unattended=True, params={"tick": 1})
    assert await store.apply(refused) == Busy(active)
    kept = await record(store, refused.run_id)
    assert (kept.run.status, kept.run.ended_at) == (RunStatus.REJECTED, clock())
    assert (kept.run.head_key, kept.run.waiting_key, kept.run.due_at) == (None, None, None)
    assert kept.params == '{"tick":1}'
    (event,) = await events(store, refused.run_id)
    assert json.loads(event.payload) == {"from": None, "to": "rejected", "reason": "busy"}
    assert await record(store, active) == before


@pytest.mark.proves("R2.1")
async def test_a_lane_without_room_rejects_the_unattended_likewise(store: SqlStore) -> None:
    await store.apply(SetLane(name=LaneName("main"), max_concurrent=0, max_queued=0))
    refused = a_submit(is_unattended=True, queue_timeout_s=5)
    assert isinstance(await store.apply(refused), LaneQueueFull)
    assert await status(store, refused.run_id) is RunStatus.REJECTED
    assert (await state(store, refused.run_id)).due_at is None
    (event,) = await events(store, refused.run_id)
    assert json.loads(event.payload)["reason"] == "no_room"
    # The key is as free as it was.
    await store.apply(SetLane(name=LaneName("main"), max_queued=-1))
    await submitted(store)


@pytest.mark.proves("R2.1")
async def test_what_was_rejected_is_never_continued(store: SqlStore) -> None:
    """Neither when it is found in the table, nor when it was refused in the same batch."""
    first = await submitted(store)
    await store.apply(a_submit(is_unattended=True))
    later_on = a_submit(mode=RunMode.CONTINUE, on_conflict=OnConflict.ENQUEUE)
    await together(store, a_submit(is_unattended=True), later_on)
    assert (await state(store, later_on.run_id)).continued_from == first
