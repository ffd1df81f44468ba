"""What a run may be waiting for, read as of one instant, on every backend."""

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.instance import DeclareDead
from headway.core.command.admin.prune import PruneEvents
from headway.core.command.admin.set_lane import SetLane
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.inbox import ANSWER, PostToInbox
from headway.core.command.run.interrupt import OpenInterrupt
from headway.core.command.run.report import SaveProgress
from headway.core.command.run.settle import Complete, Fail
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot
from headway.core.ids import MAIN_LANE, RunId, add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.explain import Explanation, Gate, Situation, explain
from headway.testing import FakeClock, claim_of, document
from tests.contract.scenes import instance, orphaned, raise_limit, running, submitted

BEHIND = OnConflict.ENQUEUE


async def situation(store: SqlStore, run_id: RunId) -> Situation:
    found = await store.runs.situation(run_id)
    assert found is not None
    return found


async def told(store: SqlStore, clock: FakeClock, run_id: RunId) -> Explanation:
    return explain(await situation(store, run_id), clock())


@pytest.mark.proves("R1.10")
async def test_of_a_run_that_is_not_there_nothing_is_told(store: SqlStore) -> None:
    assert await store.runs.situation(RunId("none")) is None


@pytest.mark.proves("R1.12")
async def test_a_run_behind_others_of_its_key_knows_its_position(
    store: SqlStore, clock: FakeClock
) -> None:
    head = await running(store)
    queued_at = clock.advance(1)
    behind = [await submitted(store, on_conflict=BEHIND) for _ in range(3)]
    await submitted(store, "bob")
    clock.advance(1)
    for position, run_id in enumerate(behind, start=1):
        found = await told(store, clock, run_id)
        assert (found.gate, found.holder_ids) == (Gate.KEY, (head.run_id,))
        assert (found.position, found.since) == (position, queued_at)
    seen = await situation(store, behind[0])
    assert seen.head is not None
    assert seen.head.id == head.run_id


@pytest.mark.proves("R1.12")
async def test_a_run_that_waits_for_its_lane_knows_its_position_and_the_holders(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await instance(store)
    await running(store, "elsewhere", by=holder, lane="cron")
    holders = [(await running(store, f"key-{number}", by=holder)).run_id for number in range(3)]
    waiting = [await submitted(store, f"wait-{number}") for number in range(3)]
    await submitted(store, "elsewhere", lane="cron", on_conflict=BEHIND)
    for position, run_id in enumerate(waiting, start=1):
        found = await told(store, clock, run_id)
        assert (found.gate, found.position) == (Gate.LANE_FULL, position)
        assert found.holder_ids == tuple(holders)
    assert (await situation(store, waiting[0])).held_count == 3


@pytest.mark.proves("I9")
async def test_who_has_run_before_stands_before_who_has_not(
    store: SqlStore, clock: FakeClock
) -> None:
    new = await submitted(store, "new", lane="cron")
    await raise_limit(store, 2, lane="cron")
    holder = await instance(store)
    ran = await running(store, "one", by=holder, job="fetch", lane="cron")
    await store.apply(ReleaseSlot(claim_of(ran)))
    await raise_limit(store, 0, lane="cron")
    assert (await told(store, clock, new)).position == 1
    await store.apply(RequestSlot(claim_of(ran)))
    found = await told(store, clock, new)
    assert (found.gate, found.position) == (Gate.LANE_LIMIT_ZERO, 2)
    assert (await told(store, clock, ran.run_id)).position == 1


async def test_a_run_is_ready_since_the_end_of_the_one_before_it(
    store: SqlStore, clock: FakeClock
) -> None:
    first = await running(store)
    second = await submitted(store, on_conflict=BEHIND)
    ended_at = clock.advance(5)
    await store.apply(Complete(claim_of(first)))
    clock.advance(5)
    found = await told(store, clock, second)
    assert (found.gate, found.since, found.holder_ids) == (Gate.NOT_CLAIMED, ended_at, ())


@pytest.mark.proves("I14")
async def test_when_the_events_are_pruned_since_when_is_not_told(
    store: SqlStore, clock: FakeClock
) -> None:
    ready, one = await submitted(store, "bob", job="fetch"), await running(store)
    assert (await told(store, clock, ready)).since is not None
    await store.apply(PruneEvents(1_000))
    assert (await told(store, clock, ready)).since is None
    assert (await told(store, clock, one.run_id)).since is None


async def test_a_paused_lane_is_told(store: SqlStore, clock: FakeClock) -> None:
    run_id = await submitted(store)
    await store.apply(SetLane(name=MAIN_LANE, is_paused=True))
    assert (await told(store, clock, run_id)).gate is Gate.LANE_PAUSED


async def test_who_is_dead_or_past_its_lease_is_no_live_instance(
    store: SqlStore, clock: FakeClock
) -> None:
    run_id = await submitted(store)
    assert (await told(store, clock, run_id)).gate is Gate.NO_LIVE_INSTANCE
    proven = await instance(store)
    assert (await told(store, clock, run_id)).gate is Gate.NOT_CLAIMED
    await store.apply(DeclareDead(proven, is_proven=True))
    late = await instance(store, ttl_s=10)
    assert (await situation(store, run_id)).leases == {late: add_seconds(clock(), seconds=10)}
    clock.advance(10)
    assert (await told(store, clock, run_id)).gate is Gate.NO_LIVE_INSTANCE


async def test_a_run_tells_of_every_stop_on_its_way_and_since_when(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await instance(store)
    one = await running(store, by=holder)
    run_id, claim = one.run_id, claim_of(one)

    async def stop() -> tuple[Gate, int | None, tuple[str, ...]]:
        """Told a moment after the stop, so that `since` is not just the present."""
        clock.advance(1)
        await store.apply(SaveProgress(claim, document({"page": 1})))
        found = await told(store, clock, run_id)
        return found.gate, found.since, found.holder_ids

    assert await stop() == (Gate.RUNNING, add_seconds(clock(), seconds=-1), (holder,))
    await store.apply(ReleaseSlot(claim))
    assert await stop() == (Gate.WAITING, add_seconds(clock(), seconds=-1), (holder,))
    await store.apply(RequestSlot(claim))
    assert await stop() == (Gate.NOT_CLAIMED, add_seconds(clock(), seconds=-1), (holder,))
    await store.apply(Park(claim, wake_at=add_seconds(clock(), seconds=60)))
    assert await stop() == (Gate.NOT_DUE, add_seconds(clock(), seconds=-1), ())


@pytest.mark.proves("R1.12")
async def test_a_run_that_waits_for_a_person_names_the_open_questions(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store)
    claim = claim_of(one)
    for call_id in ("first", "second"):
        clock.advance(1)
        await store.apply(OpenInterrupt(claim, call_id, document({"tool": "delete"})))
    await store.apply(ReleaseSlot(claim))
    assert (await situation(store, one.run_id)).open_call_ids == ["first", "second"]
    answer = document({"approved": True})
    answered = PostToInbox(run_id=one.run_id, kind=ANSWER, payload=answer, call_id="first")
    await store.apply(answered)
    found = await told(store, clock, one.run_id)
    assert found.sentence == "Its job waits, without a slot, for an answer to 'second'."


@pytest.mark.proves("R1.12")
async def test_what_is_over_says_why(store: SqlStore, clock: FakeClock) -> None:
    failed, canceled = await running(store), await submitted(store, "bob")
    await store.apply(Fail(claim_of(failed), document({"code": "error", "message": "no disk"})))
    await store.apply(RequestCancel(run_id=canceled, reason="too late"))
    sentences = [(await told(store, clock, one)).sentence for one in (failed.run_id, canceled)]
    assert sentences == [
        "The run is over: failed (no disk).",
        "The run is over: canceled (too late).",
    ]


@pytest.mark.proves("I8")
async def test_the_run_of_an_instance_that_is_gone_awaits_the_sweep_and_then_another(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await instance(store, ttl_s=10)
    one = await running(store, by=holder)
    await instance(store)
    expired_at = clock.advance(10)
    found = await told(store, clock, one.run_id)
    assert (found.gate, found.since) == (Gate.LEASE_EXPIRED, expired_at)
    await orphaned(store, one.run_id)
    found = await told(store, clock, one.run_id)
    assert (found.gate, found.since) == (Gate.NOT_CLAIMED, clock())
    assert "Its executor died" in found.sentence


@pytest.mark.proves("I11")
async def test_a_run_that_is_cancelling_tells_until_when(store: SqlStore, clock: FakeClock) -> None:
    one = await running(store)
    asked_at = clock.advance(1)
    await store.apply(RequestCancel(run_id=one.run_id, grace_s=30))
    clock.advance(1)
    found = await told(store, clock, one.run_id)
    assert (found.gate, found.since) == (Gate.CANCELLING, asked_at)
    assert found.until == add_seconds(asked_at, seconds=30)
