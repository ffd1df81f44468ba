"""The facts that explain why a run waits, read as of one instant, on every backend."""

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.instance import DeclareDead
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.admin.prune import PruneEvents
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
from tests.contract.scenes import orphan_run, raise_limit, register_instance, start_run, submit_run

BEHIND = OnConflict.ENQUEUE


async def read_situation(store: SqlStore, run_id: RunId) -> Situation:
    situation = await store.runs.situation(run_id)
    assert situation is not None
    return situation


async def explain_run(store: SqlStore, clock: FakeClock, run_id: RunId) -> Explanation:
    return explain(await read_situation(store, run_id), clock())


@pytest.mark.proves("R1.10")
async def test_situation_of_an_unknown_run_is_none(store: SqlStore) -> None:
    assert await store.runs.situation(RunId("none")) is None


@pytest.mark.proves("R1.12")
async def test_run_behind_others_of_its_key_has_its_position(
    store: SqlStore, clock: FakeClock
) -> None:
    head = await start_run(store)
    queued_at = clock.advance(1)
    behind = [await submit_run(store, on_conflict=BEHIND) for _ in range(3)]
    await submit_run(store, "bob")
    clock.advance(1)
    for position, run_id in enumerate(behind, start=1):
        explanation = await explain_run(store, clock, run_id)
        assert (explanation.gate, explanation.holder_ids) == (Gate.KEY, (head.run_id,))
        assert (explanation.position, explanation.since) == (position, queued_at)
    situation = await read_situation(store, behind[0])
    assert situation.head is not None
    assert situation.head.id == head.run_id


@pytest.mark.proves("R1.12")
async def test_run_that_waits_for_its_lane_has_its_position_and_the_holders(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await register_instance(store)
    await start_run(store, "elsewhere", by=holder, lane="cron")
    holders = [(await start_run(store, f"key-{number}", by=holder)).run_id for number in range(3)]
    waiting = [await submit_run(store, f"wait-{number}") for number in range(3)]
    await submit_run(store, "elsewhere", lane="cron", on_conflict=BEHIND)
    for position, run_id in enumerate(waiting, start=1):
        explanation = await explain_run(store, clock, run_id)
        assert (explanation.gate, explanation.position) == (Gate.LANE_FULL, position)
        assert explanation.holder_ids == tuple(holders)
    assert (await read_situation(store, waiting[0])).held_count == 3


@pytest.mark.proves("I9")
async def test_resumed_runs_are_ahead_of_new_runs(store: SqlStore, clock: FakeClock) -> None:
    new = await submit_run(store, "new", lane="cron")
    await raise_limit(store, 2, lane="cron")
    holder = await register_instance(store)
    ran = await start_run(store, "one", by=holder, job="fetch", lane="cron")
    await store.apply(ReleaseSlot(claim_of(ran)))
    await raise_limit(store, 0, lane="cron")
    assert (await explain_run(store, clock, new)).position == 1
    await store.apply(RequestSlot(claim_of(ran)))
    explanation = await explain_run(store, clock, new)
    assert (explanation.gate, explanation.position) == (Gate.LANE_LIMIT_ZERO, 2)
    assert (await explain_run(store, clock, ran.run_id)).position == 1


async def test_explanation_shows_a_run_as_ready_since_the_run_before_it_ended(
    store: SqlStore, clock: FakeClock
) -> None:
    first = await start_run(store)
    second = await submit_run(store, on_conflict=BEHIND)
    ended_at = clock.advance(5)
    await store.apply(Complete(claim_of(first)))
    clock.advance(5)
    explanation = await explain_run(store, clock, second)
    assert (explanation.gate, explanation.since, explanation.holder_ids) == (
        Gate.NOT_CLAIMED,
        ended_at,
        (),
    )


@pytest.mark.proves("I14")
async def test_start_of_a_wait_is_unknown_when_its_events_are_pruned(
    store: SqlStore, clock: FakeClock
) -> None:
    ready, run = await submit_run(store, "bob", job="fetch"), await start_run(store)
    assert (await explain_run(store, clock, ready)).since is not None
    await store.apply(PruneEvents(1_000))
    assert (await explain_run(store, clock, ready)).since is None
    assert (await explain_run(store, clock, run.run_id)).since is None


async def test_paused_lane_is_the_reason_why_its_run_waits(
    store: SqlStore, clock: FakeClock
) -> None:
    run_id = await submit_run(store)
    await store.apply(SetLane(name=MAIN_LANE, is_paused=True))
    assert (await explain_run(store, clock, run_id)).gate is Gate.LANE_PAUSED


async def test_dead_or_expired_instance_does_not_count_as_live(
    store: SqlStore, clock: FakeClock
) -> None:
    run_id = await submit_run(store)
    assert (await explain_run(store, clock, run_id)).gate is Gate.NO_LIVE_INSTANCE
    proven = await register_instance(store)
    assert (await explain_run(store, clock, run_id)).gate is Gate.NOT_CLAIMED
    await store.apply(DeclareDead(proven, is_proven=True))
    expired = await register_instance(store, ttl_s=10)
    assert (await read_situation(store, run_id)).leases == {
        expired: add_seconds(clock(), seconds=10)
    }
    clock.advance(10)
    assert (await explain_run(store, clock, run_id)).gate is Gate.NO_LIVE_INSTANCE


async def test_explanation_gives_the_reason_and_the_start_of_every_wait(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await register_instance(store)
    run = await start_run(store, by=holder)
    run_id, claim = run.run_id, claim_of(run)

    async def read_gate() -> tuple[Gate, int | None, tuple[str, ...]]:
        """Read the gate a moment after the wait began, so that `since` differs from now."""
        clock.advance(1)
        await store.apply(SaveProgress(claim, document({"page": 1})))
        explanation = await explain_run(store, clock, run_id)
        return explanation.gate, explanation.since, explanation.holder_ids

    assert await read_gate() == (Gate.RUNNING, add_seconds(clock(), seconds=-1), (holder,))
    await store.apply(ReleaseSlot(claim))
    assert await read_gate() == (Gate.WAITING, add_seconds(clock(), seconds=-1), (holder,))
    await store.apply(RequestSlot(claim))
    assert await read_gate() == (Gate.NOT_CLAIMED, add_seconds(clock(), seconds=-1), (holder,))
    await store.apply(Park(claim, wake_at=add_seconds(clock(), seconds=60)))
    assert await read_gate() == (Gate.NOT_DUE, add_seconds(clock(), seconds=-1), ())


@pytest.mark.proves("R1.12")
async def test_run_that_waits_for_a_person_names_the_open_questions(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store)
    claim = claim_of(run)
    for call_id in ("first", "second"):
        clock.advance(1)
        await store.apply(OpenInterrupt(claim, call_id, document({"tool": "delete"})))
    await store.apply(ReleaseSlot(claim))
    assert (await read_situation(store, run.run_id)).open_call_ids == ["first", "second"]
    answer = document({"approved": True})
    answered = PostToInbox(run_id=run.run_id, kind=ANSWER, payload=answer, call_id="first")
    await store.apply(answered)
    explanation = await explain_run(store, clock, run.run_id)
    assert explanation.sentence == "Its job waits without a slot for an answer to 'second'."


@pytest.mark.proves("R1.12")
async def test_ended_run_is_explained_by_its_reason(store: SqlStore, clock: FakeClock) -> None:
    failed, canceled = await start_run(store), await submit_run(store, "bob")
    await store.apply(Fail(claim_of(failed), document({"code": "error", "message": "no disk"})))
    await store.apply(RequestCancel(run_id=canceled, reason="too late"))
    sentences = [
        (await explain_run(store, clock, run_id)).sentence for run_id in (failed.run_id, canceled)
    ]
    assert sentences == [
        "The run has ended: failed (no disk).",
        "The run has ended: canceled (too late).",
    ]


@pytest.mark.proves("I8")
async def test_run_of_a_dead_instance_awaits_the_sweep_and_then_another_instance(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await register_instance(store, ttl_s=10)
    run = await start_run(store, by=holder)
    await register_instance(store)
    expired_at = clock.advance(10)
    explanation = await explain_run(store, clock, run.run_id)
    assert (explanation.gate, explanation.since) == (Gate.LEASE_EXPIRED, expired_at)
    await orphan_run(store, run.run_id)
    explanation = await explain_run(store, clock, run.run_id)
    assert (explanation.gate, explanation.since) == (Gate.NOT_CLAIMED, clock())
    assert "Its process was lost" in explanation.sentence


@pytest.mark.proves("I11")
async def test_cancelling_run_shows_its_deadline(store: SqlStore, clock: FakeClock) -> None:
    run = await start_run(store)
    asked_at = clock.advance(1)
    await store.apply(RequestCancel(run_id=run.run_id, grace_s=30))
    clock.advance(1)
    explanation = await explain_run(store, clock, run.run_id)
    assert (explanation.gate, explanation.since) == (Gate.CANCELLING, asked_at)
    assert explanation.until == add_seconds(asked_at, seconds=30)
