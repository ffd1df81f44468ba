"""When an instance dies, its runs are released once and continue elsewhere or end."""

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
    claim_run,
    claim_runs,
    orphan_run,
    read_event_types,
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

UNKNOWN_INSTANCE = InstanceId("nobody")


@pytest.mark.proves("I8")
async def test_instance_is_alive_while_it_renews(store: SqlStore, clock: FakeClock) -> None:
    registration = an_instance()
    holder = registration.instance_id
    renewed: int | None = await store.apply(registration)
    assert renewed == add_seconds(clock(), seconds=LEASE_TTL_S)
    for _ in range(3):
        clock.advance(LEASE_TTL_S - 1)
        assert await store.apply(DeclareDead(holder)) is False
        renewed = await store.apply(RenewInstance(instance_id=holder))
        assert renewed == add_seconds(clock(), seconds=LEASE_TTL_S)
    (rows,) = await store.runs.instances()
    assert (rows.id, rows.lease_expires_at, rows.is_dead) == (holder, renewed, 0)
    assert (rows.host, rows.pid) == ("localhost", 1)


@pytest.mark.proves("I8")
async def test_instance_with_an_expired_lease_claims_nothing_more(
    store: SqlStore, clock: FakeClock
) -> None:
    await submit_run(store)
    holder = await register_instance(store, ttl_s=10)
    clock.advance(10)
    before = await read_all(store)
    assert await store.apply(a_claim(holder)) == InstanceLost()
    assert await store.apply(a_claim(UNKNOWN_INSTANCE)) == InstanceLost()
    assert await read_all(store) == before
    # It is late, but was not declared dead yet: it may return.
    assert await store.apply(RenewInstance(instance_id=holder)) is not None
    assert len(await claim_runs(store, a_claim(holder))) == 1


@pytest.mark.proves("I8")
async def test_dead_instance_never_revives(store: SqlStore, clock: FakeClock) -> None:
    holder = await register_instance(store, ttl_s=10)
    clock.advance(10)
    assert await store.apply(DeclareDead(holder)) is True
    assert await store.apply(DeclareDead(holder)) is True
    assert await store.apply(RenewInstance(instance_id=holder)) is None
    assert await store.apply(a_claim(holder)) == InstanceLost()
    assert await store.apply(DeclareDead(UNKNOWN_INSTANCE)) is False
    assert await store.apply(RenewInstance(instance_id=UNKNOWN_INSTANCE)) is None


@pytest.mark.proves("I17", "I8")
async def test_sweeper_does_not_declare_itself_dead_but_sweeps_dead_instances(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await register_instance(store, ttl_s=10)
    claimed_run = await start_run(store, by=holder)
    clock.advance(10)
    before = await read_all(store)
    await sweep(store, store.runs, NO_LOCKS, own_instance_id=holder)
    assert await read_all(store) == before
    await store.apply(DeclareDead(holder))
    await sweep(store, store.runs, NO_LOCKS, own_instance_id=holder)
    run = await read_run(store, claimed_run.run_id)
    assert (run.instance_id, run.death_count) == (None, 1)


@pytest.mark.proves("I17", "I8")
async def test_expired_instance_is_declared_dead_by_any_other_sweeper(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await register_instance(store, ttl_s=10)
    run = await start_run(store, by=holder)
    clock.advance(10)
    other = await register_instance(store)
    await sweep(store, store.runs, NO_LOCKS, own_instance_id=other)
    assert [row.id for row in await store.runs.instances()] == [other]
    assert (await read_run(store, run.run_id)).death_count == 1


@pytest.mark.proves("I8")
async def test_simultaneous_renewal_and_death_are_serialized(
    store: SqlStore, another_store: SqlStore, clock: FakeClock
) -> None:
    for _ in range(10):
        holder = await register_instance(store, ttl_s=10)
        clock.advance(10)
        renewed, dead = await asyncio.gather(
            store.apply(RenewInstance(instance_id=holder)), another_store.apply(DeclareDead(holder))
        )
        assert dead == (renewed is None)


@pytest.mark.proves("I8")
async def test_death_of_an_instance_frees_its_runs_and_their_slots(
    store: SqlStore, clock: FakeClock
) -> None:
    holder = await register_instance(store, ttl_s=LEASE_TTL_S)
    runs = [await start_run(store, f"key-{number}", by=holder) for number in range(3)]
    behind = await submit_run(store, "key-0", on_conflict=OnConflict.ENQUEUE)
    survivor = await register_instance(store)
    clock.advance(LEASE_TTL_S)
    assert await claim_runs(store, a_claim(survivor, count=9)) == ()
    assert await store.apply(DeclareDead(holder))
    held = await store.runs.held_runs(holder, limit=10)
    assert [run.id for run in held] == [run.run_id for run in runs]
    for run in held:
        assert await store.apply(ReleaseOrphan(run.id, holder))
    assert (await read_lane(store)).held_count == 0
    assert list(await store.runs.held_runs(holder, limit=10)) == []
    again = await claim_runs(store, a_claim(survivor, count=9))
    assert [run.run_id for run in again] == [run.run_id for run in runs]
    await store.apply(Complete(claim_of(again[0])))
    assert (await claim_run(store, survivor)).run_id == behind


@pytest.mark.proves("I8")
async def test_run_is_released_only_from_its_own_dead_holder(store: SqlStore) -> None:
    holder, other = await register_instance(store), await register_instance(store)
    run = await start_run(store, by=holder)
    await store.apply(DeclareDead(other, is_proven=True))
    before = await read_all(store)
    assert await store.apply(ReleaseOrphan(run.run_id, holder)) is False  # The holder is alive.
    assert (
        await store.apply(ReleaseOrphan(run.run_id, other)) is False
    )  # The other instance does not hold the run.
    assert await store.apply(ReleaseOrphan(run.run_id, UNKNOWN_INSTANCE)) is False
    assert await read_all(store) == before


@pytest.mark.proves("I8")
async def test_run_is_released_once(store: SqlStore, another_store: SqlStore) -> None:
    holder = await register_instance(store)
    run = await start_run(store, by=holder)
    await store.apply(DeclareDead(holder, is_proven=True))
    release = ReleaseOrphan(run.run_id, holder)
    answers = await asyncio.gather(store.apply(release), another_store.apply(release))
    assert sorted(map(bool, answers)) == [False, True]
    assert (await read_run(store, run.run_id)).death_count == 1


@pytest.mark.proves("I8")
async def test_retired_instance_leaves_no_row_and_its_runs_can_be_released(
    store: SqlStore,
) -> None:
    holder = await register_instance(store)
    run = await start_run(store, by=holder)
    assert await store.apply(RetireInstance(holder)) is True
    assert await store.apply(RetireInstance(holder)) is False
    assert list(await store.runs.instances()) == []
    assert await store.apply(a_claim(holder)) == InstanceLost()
    assert await store.apply(ReleaseOrphan(run.run_id, holder)) is True


@pytest.mark.proves("I8")
async def test_run_that_waits_without_a_slot_is_freed_when_its_executor_dies(
    store: SqlStore,
) -> None:
    for wants_slot in (False, True):
        run = await start_run(store, f"key-{wants_slot}")
        await store.apply(ReleaseSlot(claim_of(run)))
        if wants_slot:
            await store.apply(RequestSlot(claim_of(run)))
        await orphan_run(store, run.run_id)
        again = await claim_run(store, await register_instance(store))
        assert (again.run_id, again.generation, again.is_resumed) == (run.run_id, 2, False)


@pytest.mark.proves("I4")
async def test_key_never_has_two_live_claims_while_executors_die(
    store: SqlStore, another_store: SqlStore
) -> None:
    """While an executor dies and returns, only its successor gets a run of the key."""
    first = await submit_run(store)
    waiting = [await submit_run(store, on_conflict=OnConflict.ENQUEUE) for _ in range(3)]
    for generation in (1, 2):
        runs, others = await asyncio.gather(
            claim_runs(store, a_claim(await register_instance(store), count=9)),
            claim_runs(another_store, a_claim(await register_instance(store), count=9)),
        )
        (run,) = (*runs, *others)
        assert (run.run_id, run.generation) == (first, generation)
        await orphan_run(store, first)
    assert [(await read_run(store, run_id)).waiting_key for run_id in waiting] == ["ann"] * 3


@pytest.mark.proves("I17")
async def test_three_deaths_without_progress_are_poison(store: SqlStore, clock: FakeClock) -> None:
    run = await start_run(store)
    behind = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    await orphan_run(store, run.run_id, times=DEATH_COUNT_MAX)
    stored = await read_record(store, run.run_id)
    assert (stored.run.status, stored.run.ended_at) == (RunStatus.FAILED, clock())
    assert stored.error is not None
    assert json.loads(stored.error)["code"] == "poison"
    assert (await read_transitions(store, run.run_id))[-1] == ("running", "failed")
    assert (await read_event_types(store, run.run_id)).count(
        "run_taken_over"
    ) == DEATH_COUNT_MAX - 1
    assert (await claim_run(store, await register_instance(store))).run_id == behind


@pytest.mark.proves("I17")
async def test_checkpoint_resets_the_count_of_deaths(store: SqlStore) -> None:
    run = await start_run(store)
    for number in range(3):
        await orphan_run(store, run.run_id, times=DEATH_COUNT_MAX - 1)
        again = await claim_run(store, await register_instance(store))
        assert await store.apply(SaveCheckpoint(claim_of(again), document({"page": number})))
        assert (await read_run(store, run.run_id)).death_count == 0
    await orphan_run(store, run.run_id, times=DEATH_COUNT_MAX)
    assert await read_status(store, run.run_id) is RunStatus.FAILED


@pytest.mark.proves("I17")
async def test_parking_counts_as_progress(store: SqlStore) -> None:
    run = await start_run(store)
    for _ in range(3):
        await orphan_run(store, run.run_id, times=DEATH_COUNT_MAX - 1)
        again = await claim_run(store, await register_instance(store))
        assert await store.apply(Park(claim_of(again)))
        assert await store.apply(Wake(run.run_id))
        await claim_run(store, await register_instance(store))
    assert await read_status(store, run.run_id) is RunStatus.RUNNING


@pytest.mark.proves("I17")
async def test_twenty_graceful_stops_without_progress_are_poison(store: SqlStore) -> None:
    run = await start_run(store)
    behind = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    for number in range(1, STOP_COUNT_MAX):
        assert await store.apply(HandOver(claim_of(run), has_progressed=False))
        (*_, parked, _woken) = await read_events(store, run.run_id)
        assert json.loads(parked.payload) == {"reason": "handed_over", "stop_count": number}
        run = await claim_run(store, await register_instance(store))
        assert run.generation == number + 1
    assert await store.apply(HandOver(claim_of(run), has_progressed=False))
    stored = await read_record(store, run.run_id)
    assert (stored.run.status, stored.run.stop_count) == (RunStatus.FAILED, STOP_COUNT_MAX)
    assert json.loads(stored.error or "") == {
        "code": "poison",
        "message": "the process that executed it was stopped 20 times without progress in between",
    }
    assert (await claim_run(store, await register_instance(store))).run_id == behind


@pytest.mark.proves("I17")
async def test_graceful_stop_does_not_reset_the_count_of_deaths(store: SqlStore) -> None:
    run = await start_run(store)
    await orphan_run(store, run.run_id, times=DEATH_COUNT_MAX - 1)
    again = await claim_run(store, await register_instance(store))
    assert await store.apply(HandOver(claim_of(again), has_progressed=False))
    assert (await read_run(store, run.run_id)).death_count == DEATH_COUNT_MAX - 1
    await claim_run(store, await register_instance(store))
    await orphan_run(store, run.run_id)
    assert await read_status(store, run.run_id) is RunStatus.FAILED


@pytest.mark.proves("I17")
@pytest.mark.parametrize("is_waiting", [True, False], ids=["waits", "has progressed"])
async def test_graceful_stop_is_not_counted_for_a_run_that_waits_or_progresses(
    store: SqlStore, is_waiting: bool
) -> None:
    run = await start_run(store)
    for _ in range(2 * STOP_COUNT_MAX):
        if is_waiting:
            await store.apply(ReleaseSlot(claim_of(run)))
        handed = HandOver(claim_of(run), has_progressed=not is_waiting, has_waited=is_waiting)
        assert await store.apply(handed)
        assert (await read_run(store, run.run_id)).stop_count == 0
        run = await claim_run(store, await register_instance(store))


@pytest.mark.proves("I17")
@pytest.mark.parametrize("has_waited", [True, False], ids=["works again", "waits since the stop"])
async def test_stop_is_counted_unless_the_run_has_only_waited(
    store: SqlStore, has_waited: bool
) -> None:
    run = await start_run(store)
    if not has_waited:
        await store.apply(ReleaseSlot(claim_of(run)))
    await store.apply(HandOver(claim_of(run), has_progressed=False, has_waited=has_waited))
    assert (await read_run(store, run.run_id)).stop_count == 1


@pytest.mark.proves("I17")
async def test_checkpoint_resets_the_count_of_stops(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(HandOver(claim_of(run), has_progressed=False))
    run = await claim_run(store, await register_instance(store))
    assert (await read_run(store, run.run_id)).stop_count == 1
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 1})))
    assert (await read_run(store, run.run_id)).stop_count == 0


async def test_cancelling_run_is_not_handed_over(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(RequestCancel(run_id=run.run_id))
    assert await store.apply(HandOver(claim_of(run), has_progressed=False)) is False
    assert await read_status(store, run.run_id) is RunStatus.CANCELLING


@pytest.mark.proves("I17")
@pytest.mark.parametrize("has_checkpoint", [False, True])
async def test_run_that_must_not_resume_fails_at_the_first_death_of_its_executor(
    store: SqlStore, has_checkpoint: bool
) -> None:
    run = await start_run(store, recovery=Recovery.FAIL)
    if has_checkpoint:
        await store.apply(SaveCheckpoint(claim_of(run), document({})))
    await orphan_run(store, run.run_id)
    stored = await read_record(store, run.run_id)
    assert stored.run.status is RunStatus.FAILED
    assert stored.error is not None
    assert json.loads(stored.error)["code"] == "executor_lost"


@pytest.mark.proves("I8")
async def test_cancelling_run_whose_executor_died_is_canceled(store: SqlStore) -> None:
    claimed_run = await start_run(store)
    await store.apply(RequestCancel(run_id=claimed_run.run_id))
    await orphan_run(store, claimed_run.run_id)
    run = await read_run(store, claimed_run.run_id)
    assert (run.status, run.generation) == (RunStatus.CANCELED, 2)
    assert (await read_transitions(store, claimed_run.run_id))[-1] == ("cancelling", "canceled")


@pytest.mark.proves("I17")
async def test_successor_continues_from_the_checkpoint(store: SqlStore) -> None:
    run = await start_run(store)
    assert run.checkpoint is None
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 1})))
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 2})))
    await orphan_run(store, run.run_id)
    assert (await claim_run(store, await register_instance(store))).checkpoint == '{"page":2}'
