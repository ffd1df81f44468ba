"""When an instance dies: its runs are taken from it, once, and go on elsewhere or end."""

import asyncio
import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.instance import (
    DeclareDead,
    HandOver,
    ReleaseOrphan,
    RenewInstance,
    RetireInstance,
)
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.claim import InstanceLost
from headway.core.command.run.report import SaveCheckpoint
from headway.core.command.run.settle import Complete
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot, Wake
from headway.core.ids import InstanceId, add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.run import DEATH_COUNT_MAX, STOP_COUNT_MAX, Recovery
from headway.core.run.status import RunStatus
from headway.core.timeouts import LEASE_TTL_S
from headway.services.engine.sweep import sweep
from headway.testing import FakeClock, a_claim, an_instance, claim_of, document
from headway.testing.locks import NO_LOCKS
from tests.contract.backends import read_all
from tests.contract.scenes import (
    claimed,
    claimed_one,
    events,
    instance,
    kinds,
    lane_view,
    moves,
    orphaned,
    record,
    running,
    state,
    status,
    submitted,
)

NOBODY = InstanceId("nobody")


@pytest.mark.proves("I8")
async def test_an_instance_lives_as_long_as_it_renews(store: SqlStore, clock: FakeClock) -> None:
    registration = an_instance()
    holder = registration.instance_id
    renewed: int | None = await store.apply(registration)
    assert renewed == add_seconds(clock(), seconds=LEASE_TTL_S)
    for _ in range(3):
        clock.advance(LEASE_TTL_S - 1)
        assert await store.apply(DeclareDead(holder)) is False
        renewed = await store.apply(RenewInstance(instance_id=holder))
        assert renewed == add_seconds(clock(), seconds=LEASE_TTL_S)
    (found,) = await store.runs.instances()
    assert (found.id, found.lease_expires_at, found.is_dead) == (holder, renewed, 0)
    assert (found.host, found.pid) == ("localhost", 1)


@pytest.mark.proves("I8")
async def test_an_instance_whose_lease_ran_out_claims_nothing_more(
    store: SqlStore, clock: FakeClock
) -> None:
    await submitted(store)
    holder = await instance(store, ttl_s=10)
    clock.advance(10)
    before = await read_all(store)
    assert await store.apply(a_claim(holder)) == InstanceLost()
    assert await store.apply(a_claim(NOBODY)) == InstanceLost()
    assert await read_all(store) == before
    # Late, but nobody has buried it yet: it may come back.
    assert await store.apply(RenewInstance(instance_id=holder)) is not None
    assert len(await claimed(store, a_claim(holder))) == 1


@pytest.mark.proves("I8")
async def test_a_dead_instance_never_revives(store: SqlStore, clock: FakeClock) -> None:
    holder = await instance(store, ttl_s=10)
    clock.advance(10)
    assert await store.apply(DeclareDead(holder)) is True
    assert await store.apply(DeclareDead(holder)) is True
    assert await store.apply(RenewInstance(instance_id=holder)) is None
    assert await store.apply(a_claim(holder)) == InstanceLost()
    assert await store.apply(DeclareDead(NOBODY)) is False
    assert await store.apply(RenewInstance(instance_id=NOBODY)) is None


@pytest.mark.proves("I17", "I8")
async def test_who_sweeps_does_not_bury_itself_and_whom_others_bury_is_swept(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await instance(store, ttl_s=10)
    one = await running(store, by=holder)
    clock.advance(10)
    before = await read_all(store)
    await sweep(store, store.runs, NO_LOCKS, own_instance_id=holder)
    assert await read_all(store) == before
    await store.apply(DeclareDead(holder))
    await sweep(store, store.runs, NO_LOCKS, own_instance_id=holder)
    run = await state(store, one.run_id)
    assert (run.instance_id, run.death_count) == (None, 1)


@pytest.mark.proves("I17", "I8")
async def test_whose_lease_ran_out_is_buried_by_whoever_else_sweeps(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await instance(store, ttl_s=10)
    one = await running(store, by=holder)
    clock.advance(10)
    other = await instance(store)
    await sweep(store, store.runs, NO_LOCKS, own_instance_id=other)
    assert [found.id for found in await store.runs.instances()] == [other]
    assert (await state(store, one.run_id)).death_count == 1


@pytest.mark.proves("I8")
async def test_renewal_and_death_at_once_agree_on_who_was_first(
    store: SqlStore, another_store: SqlStore, clock: FakeClock
) -> None:
    for _ in range(10):
        holder = await instance(store, ttl_s=10)
        clock.advance(10)
        renewed, dead = await asyncio.gather(
            store.apply(RenewInstance(instance_id=holder)), another_store.apply(DeclareDead(holder))
        )
        assert dead == (renewed is None)


@pytest.mark.proves("I8")
async def test_a_death_frees_slot_key_and_run(store: SqlStore, clock: FakeClock) -> None:
    holder = await instance(store, ttl_s=LEASE_TTL_S)
    ones = [await running(store, f"key-{number}", by=holder) for number in range(3)]
    behind = await submitted(store, "key-0", on_conflict=OnConflict.ENQUEUE)
    survivor = await instance(store)
    clock.advance(LEASE_TTL_S)
    assert await claimed(store, a_claim(survivor, count=9)) == ()
    assert await store.apply(DeclareDead(holder))
    held = await store.runs.runs_held_by(holder, limit=10)
    assert [run.id for run in held] == [one.run_id for one in ones]
    for run in held:
        assert await store.apply(ReleaseOrphan(run.id, holder))
    assert (await lane_view(store)).held_count == 0
    assert list(await store.runs.runs_held_by(holder, limit=10)) == []
    again = await claimed(store, a_claim(survivor, count=9))
    assert [one.run_id for one in again] == [one.run_id for one in ones]
    await store.apply(Complete(claim_of(again[0])))
    assert (await claimed_one(store, survivor)).run_id == behind


@pytest.mark.proves("I8")
async def test_a_run_is_taken_only_from_its_own_dead_holder(store: SqlStore) -> None:
    holder, other = await instance(store), await instance(store)
    one = await running(store, by=holder)
    await store.apply(DeclareDead(other, is_proven=True))
    before = await read_all(store)
    assert await store.apply(ReleaseOrphan(one.run_id, holder)) is False  # It lives.
    assert await store.apply(ReleaseOrphan(one.run_id, other)) is False  # It has nothing of it.
    assert await store.apply(ReleaseOrphan(one.run_id, NOBODY)) is False
    assert await read_all(store) == before


@pytest.mark.proves("I8")
async def test_a_run_is_taken_once(store: SqlStore, another_store: SqlStore) -> None:
    holder = await instance(store)
    one = await running(store, by=holder)
    await store.apply(DeclareDead(holder, is_proven=True))
    release = ReleaseOrphan(one.run_id, holder)
    answers = await asyncio.gather(store.apply(release), another_store.apply(release))
    assert sorted(map(bool, answers)) == [False, True]
    assert (await state(store, one.run_id)).death_count == 1


@pytest.mark.proves("I8")
async def test_an_instance_that_retired_leaves_no_row_and_its_runs_can_be_taken(
    store: SqlStore,
) -> None:
    holder = await instance(store)
    one = await running(store, by=holder)
    assert await store.apply(RetireInstance(holder)) is True
    assert await store.apply(RetireInstance(holder)) is False
    assert list(await store.runs.instances()) == []
    assert await store.apply(a_claim(holder)) == InstanceLost()
    assert await store.apply(ReleaseOrphan(one.run_id, holder)) is True


@pytest.mark.proves("I8")
async def test_a_death_while_it_waited_without_a_slot_frees_it_too(store: SqlStore) -> None:
    for wants_slot in (False, True):
        one = await running(store, f"key-{wants_slot}")
        await store.apply(ReleaseSlot(claim_of(one)))
        if wants_slot:
            await store.apply(RequestSlot(claim_of(one)))
        await orphaned(store, one.run_id)
        again = await claimed_one(store, await instance(store))
        assert (again.run_id, again.generation, again.is_resumed) == (one.run_id, 2, False)


@pytest.mark.proves("I4")
async def test_a_key_has_one_live_claim_through_all_of_it(
    store: SqlStore, another_store: SqlStore
) -> None:
    """While an executor dies and returns, nobody else gets a run of the key besides the heir."""
    first = await submitted(store)
    waiting = [await submitted(store, on_conflict=OnConflict.ENQUEUE) for _ in range(3)]
    for generation in (1, 2):
        ones, others = await asyncio.gather(
            claimed(store, a_claim(await instance(store), count=9)),
            claimed(another_store, a_claim(await instance(store), count=9)),
        )
        (one,) = (*ones, *others)
        assert (one.run_id, one.generation) == (first, generation)
        await orphaned(store, first)
    assert [(await state(store, run_id)).waiting_key for run_id in waiting] == ["ann"] * 3


@pytest.mark.proves("I17")
async def test_three_deaths_without_progress_are_poison(store: SqlStore, clock: FakeClock) -> None:
    one = await running(store)
    behind = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    await orphaned(store, one.run_id, times=DEATH_COUNT_MAX)
    kept = await record(store, one.run_id)
    assert (kept.run.status, kept.run.ended_at) == (RunStatus.FAILED, clock())
    assert kept.error is not None
    assert json.loads(kept.error)["code"] == "poison"
    assert (await moves(store, one.run_id))[-1] == ("running", "failed")
    assert (await kinds(store, one.run_id)).count("run_taken_over") == DEATH_COUNT_MAX - 1
    assert (await claimed_one(store, await instance(store))).run_id == behind


@pytest.mark.proves("I17")
async def test_a_checkpoint_forgives_earlier_deaths(store: SqlStore) -> None:
    one = await running(store)
    for number in range(3):
        await orphaned(store, one.run_id, times=DEATH_COUNT_MAX - 1)
        again = await claimed_one(store, await instance(store))
        assert await store.apply(SaveCheckpoint(claim_of(again), document({"page": number})))
        assert (await state(store, one.run_id)).death_count == 0
    await orphaned(store, one.run_id, times=DEATH_COUNT_MAX)
    assert await status(store, one.run_id) is RunStatus.FAILED


@pytest.mark.proves("I17")
async def test_to_park_is_progress_too(store: SqlStore) -> None:
    one = await running(store)
    for _ in range(3):
        await orphaned(store, one.run_id, times=DEATH_COUNT_MAX - 1)
        again = await claimed_one(store, await instance(store))
        assert await store.apply(Park(claim_of(again)))
        assert await store.apply(Wake(one.run_id))
        await claimed_one(store, await instance(store))
    assert await status(store, one.run_id) is RunStatus.RUNNING


@pytest.mark.proves("I17")
async def test_twenty_graceful_stops_without_progress_are_poison(store: SqlStore) -> None:
    one = await running(store)
    behind = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    for number in range(1, STOP_COUNT_MAX):
        assert await store.apply(HandOver(claim_of(one), has_progressed=False))
        (*_, parked, _woken) = await events(store, one.run_id)
        assert json.loads(parked.payload) == {"reason": "handed_over", "stop_count": number}
        one = await claimed_one(store, await instance(store))
        assert one.generation == number + 1
    assert await store.apply(HandOver(claim_of(one), has_progressed=False))
    kept = await record(store, one.run_id)
    assert (kept.run.status, kept.run.stop_count) == (RunStatus.FAILED, STOP_COUNT_MAX)
    assert json.loads(kept.error or "") == {
        "code": "poison",
        "message": "20 times the process that executed it was stopped"
        " before it showed any progress",
    }
    assert (await claimed_one(store, await instance(store))).run_id == behind


@pytest.mark.proves("I17")
async def test_a_graceful_stop_forgives_no_death(store: SqlStore) -> None:
    one = await running(store)
    await orphaned(store, one.run_id, times=DEATH_COUNT_MAX - 1)
    again = await claimed_one(store, await instance(store))
    assert await store.apply(HandOver(claim_of(again), has_progressed=False))
    assert (await state(store, one.run_id)).death_count == DEATH_COUNT_MAX - 1
    await claimed_one(store, await instance(store))
    await orphaned(store, one.run_id)
    assert await status(store, one.run_id) is RunStatus.FAILED


@pytest.mark.proves("I17")
@pytest.mark.parametrize("is_waiting", [True, False], ids=["waits", "has progressed"])
async def test_a_graceful_stop_costs_a_healthy_run_nothing(
    store: SqlStore, is_waiting: bool
) -> None:
    one = await running(store)
    for _ in range(2 * STOP_COUNT_MAX):
        if is_waiting:
            await store.apply(ReleaseSlot(claim_of(one)))
        handed = HandOver(claim_of(one), has_progressed=not is_waiting, has_waited=is_waiting)
        assert await store.apply(handed)
        assert (await state(store, one.run_id)).stop_count == 0
        one = await claimed_one(store, await instance(store))


@pytest.mark.proves("I17")
@pytest.mark.parametrize("has_waited", [True, False], ids=["works again", "waits since the stop"])
async def test_a_run_that_did_not_only_wait_is_counted(store: SqlStore, has_waited: bool) -> None:
    one = await running(store)
    if not has_waited:
        await store.apply(ReleaseSlot(claim_of(one)))
    await store.apply(HandOver(claim_of(one), has_progressed=False, has_waited=has_waited))
    assert (await state(store, one.run_id)).stop_count == 1


@pytest.mark.proves("I17")
async def test_a_checkpoint_resets_the_count_of_stops(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(HandOver(claim_of(one), has_progressed=False))
    one = await claimed_one(store, await instance(store))
    assert (await state(store, one.run_id)).stop_count == 1
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 1})))
    assert (await state(store, one.run_id)).stop_count == 0


async def test_a_cancelled_run_is_not_handed_over(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(RequestCancel(run_id=one.run_id))
    assert await store.apply(HandOver(claim_of(one), has_progressed=False)) is False
    assert await status(store, one.run_id) is RunStatus.CANCELLING


@pytest.mark.proves("I17")
@pytest.mark.parametrize("has_checkpoint", [False, True])
async def test_a_job_that_does_not_resume_fails_at_the_first_death(
    store: SqlStore, has_checkpoint: bool
) -> None:
    one = await running(store, recovery=Recovery.FAIL)
    if has_checkpoint:
        await store.apply(SaveCheckpoint(claim_of(one), document({})))
    await orphaned(store, one.run_id)
    kept = await record(store, one.run_id)
    assert kept.run.status is RunStatus.FAILED
    assert kept.error is not None
    assert json.loads(kept.error)["code"] == "executor_lost"


@pytest.mark.proves("I8")
async def test_a_cancelling_run_whose_executor_died_is_canceled(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(RequestCancel(run_id=one.run_id))
    await orphaned(store, one.run_id)
    run = await state(store, one.run_id)
    assert (run.status, run.generation) == (RunStatus.CANCELED, 2)
    assert (await moves(store, one.run_id))[-1] == ("cancelling", "canceled")


@pytest.mark.proves("I17")
async def test_a_successor_goes_on_from_the_checkpoint(store: SqlStore) -> None:
    one = await running(store)
    assert one.checkpoint is None
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 1})))
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 2})))
    await orphaned(store, one.run_id)
    assert (await claimed_one(store, await instance(store))).checkpoint == '{"page":2}'
