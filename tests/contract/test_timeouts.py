"""Deadlines of a run: checked by a loop of its own (R2.8), never early (I18)."""

import json

import pytest

from headway.adapters.sql.connect.database_clock import DatabaseClock, machine_now
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.end_run import Expire
from headway.core.command.run.settle import Complete, TooLate
from headway.core.command.run.wait import Park, ReleaseSlot, Retry, Wake
from headway.core.ids import SECOND_US, Instant, RunId, add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.services.engine import sweep as sweeping
from headway.services.engine.sweep import sweep
from headway.testing import FakeClock, a_claim, a_message, an_error, claim_of
from headway.testing.locks import NO_LOCKS
from tests.contract.backends import DatabaseTarget, read_all
from tests.contract.scenes import (
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


async def read_due_ids(store: SqlStore, clock: FakeClock) -> list[RunId]:
    return [run.id for run in await store.runs.runs_due(clock(), limit=100)]


@pytest.mark.proves("R2.8")
async def test_run_that_waited_too_long_is_timed_out(store: SqlStore, clock: FakeClock) -> None:
    run_id = await submit_run(store, queue_timeout_s=10)
    clock.advance(9.999999)
    assert await read_due_ids(store, clock) == []
    assert await store.apply(Expire(run_id)) is False
    clock.advance(0.000001)
    assert await read_due_ids(store, clock) == [run_id]
    assert await store.apply(Expire(run_id))
    assert await store.apply(Expire(run_id)) is False
    assert await read_due_ids(store, clock) == []
    assert await read_transitions(store, run_id) == [(None, "queued"), ("queued", "timed_out")]
    (*_, event) = await read_events(store, run_id)
    assert json.loads(event.payload)["clock"] == "queue"


@pytest.mark.proves("R2.8")
async def test_timed_out_run_names_the_deadline_that_ended_it(
    store: SqlStore, clock: FakeClock
) -> None:
    started = await start_run(store, "started", timeout_s=1.5)
    resumed = await start_run(store, "resumed", timeout_s=20, by=await register_instance(store))
    await store.apply(Retry(claim_of(resumed), an_error(), 0.0))
    await claim_run(store, await register_instance(store))
    queued = await submit_run(store, "queued", queue_timeout_s=30)
    clock.advance(31.25)
    errors = {}
    for run_id in (queued, started.run_id, resumed.run_id):
        assert await store.apply(Expire(run_id))
        errors[run_id] = json.loads((await read_record(store, run_id)).error or "")
        (*_, event) = await read_events(store, run_id)
        assert json.loads(event.payload)["error"] == errors[run_id]
    assert errors == {
        queued: {
            "code": "queue_timeout",
            "message": "waited 31.25 s in the queue; its queue_timeout_s is 30",
        },
        started.run_id: {
            "code": "execution_timeout",
            "message": "executed for longer than its timeout_s, which is 1.5",
        },
        resumed.run_id: {
            "code": "execution_timeout",
            "message": "its executions together took longer than its timeout_s",
        },
    }


@pytest.mark.proves("I18")
async def test_sweep_uses_the_clock_of_the_database(store: SqlStore, clock: FakeClock) -> None:
    """The database is in another century: by this machine's clock nothing would be due."""
    clock.advance(100 * 366 * 86_400)
    run_id = await submit_run(store, queue_timeout_s=10)
    orphan = await start_run(
        store, "orphan", lane="aside", by=await register_instance(store, ttl_s=10)
    )
    clock.advance(9.999999)
    await sweep(store, store.runs, NO_LOCKS)
    assert await read_status(store, run_id) is RunStatus.QUEUED
    assert (await read_run(store, orphan.run_id)).token == orphan.token
    clock.advance(0.000001)
    await sweep(store, store.runs, NO_LOCKS)
    assert await read_status(store, run_id) is RunStatus.TIMED_OUT
    assert (await read_run(store, orphan.run_id)).death_count == 1


@pytest.mark.proves("R2.8")
async def test_sweep_continues_while_more_is_due(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "BATCH_SIZE", 2)
    run_ids = [await submit_run(store, f"key-{number}", queue_timeout_s=10) for number in range(5)]
    dead = await register_instance(store, ttl_s=10)
    orphans = [
        await start_run(store, f"o-{number}", lane=f"o-{number}", by=dead) for number in range(5)
    ]
    clock.advance(10)
    await sweep(store, store.runs, NO_LOCKS)
    assert {await read_status(store, run_id) for run_id in run_ids} == {RunStatus.TIMED_OUT}
    assert {(await read_run(store, run.run_id)).death_count for run in orphans} == {1}
    assert dead not in {row.id for row in await store.runs.instances()}


@pytest.mark.proves("I18")
async def test_machine_with_a_wrong_clock_uses_the_clock_of_the_server(
    store: SqlStore, target: DatabaseTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes leases: by a correct clock, a lease in the test's own time has expired."""
    await register_instance(store)
    database = store._database
    monkeypatch.setattr(
        "headway.adapters.sql.connect.database_clock.machine_now", lambda: Instant(0)
    )
    monkeypatch.setattr(database, "clock", DatabaseClock(database.driver, None))
    now, figures = await store.runs.now(), await store.board.metrics()
    assert abs(now - machine_now()) < 3_600 * SECOND_US if target.is_server else now == 0
    assert figures.instance_count == (0 if target.is_server else 1)


@pytest.mark.proves("R2.8")
async def test_run_that_executed_too_long_is_timed_out_and_its_claim_becomes_stale(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store, timeout_s=10)
    assert run.run_deadline_at == add_seconds(clock(), seconds=10)
    behind = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    clock.advance(9.999999)
    assert await read_due_ids(store, clock) == []
    assert await store.apply(Expire(run.run_id)) is False
    clock.advance(0.000001)
    assert await read_due_ids(store, clock) == [run.run_id]
    assert await store.apply(Expire(run.run_id))
    assert (await read_lane(store)).held_count == 0
    assert await store.apply(Complete(claim_of(run))) == TooLate(RunStatus.TIMED_OUT)
    (*_, event) = await read_events(store, run.run_id)
    error = {
        "code": "execution_timeout",
        "message": "executed for longer than its timeout_s, which is 10",
    }
    payload = {"from": "running", "to": "timed_out", "clock": "execution", "error": error}
    assert json.loads(event.payload) == payload
    assert (await claim_run(store, await register_instance(store))).run_id == behind


@pytest.mark.proves("R2.8")
async def test_wait_in_the_queue_does_not_count_towards_the_execution_timeout(
    store: SqlStore, clock: FakeClock
) -> None:
    """Run time counts from the start of running (R1.12)."""
    run_id = await submit_run(store, timeout_s=10, queue_timeout_s=100)
    clock.advance(99)
    await claim_run(store, await register_instance(store))
    clock.advance(9)
    assert await read_due_ids(store, clock) == []
    clock.advance(1)
    assert await read_due_ids(store, clock) == [run_id]


@pytest.mark.proves("R2.8")
async def test_started_run_cannot_exceed_its_queue_timeout(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store, queue_timeout_s=10)
    clock.advance(1e6)
    assert await read_due_ids(store, clock) == []
    assert await store.apply(Expire(run.run_id)) is False


@pytest.mark.proves("R2.8")
async def test_run_waiting_behind_another_times_out(store: SqlStore, clock: FakeClock) -> None:
    head = await submit_run(store)
    behind = await submit_run(store, on_conflict=OnConflict.ENQUEUE, queue_timeout_s=10)
    clock.advance(10)
    assert await read_due_ids(store, clock) == [behind]
    assert await store.apply(Expire(behind))
    assert (await read_run(store, head)).head_key == "ann"


@pytest.mark.proves("R2.8")
async def test_run_that_is_overdue_the_longest_is_read_first(
    store: SqlStore, clock: FakeClock
) -> None:
    slow = await submit_run(store, "slow", queue_timeout_s=30)
    quick = await submit_run(store, "quick", queue_timeout_s=10)
    await submit_run(store, "never")
    clock.advance(60)
    assert await read_due_ids(store, clock) == [quick, slow]
    assert [run.id for run in await store.runs.runs_due(clock(), limit=1)] == [quick]


@pytest.mark.proves("R2.8")
async def test_timeout_of_a_run_continues_while_it_has_no_holder(
    store: SqlStore, clock: FakeClock
) -> None:
    """A run that lost its holder does not get more time than it was granted."""
    run = await start_run(store, timeout_s=10)
    clock.advance(6)
    await orphan_run(store, run.run_id)
    clock.advance(4)
    assert await read_due_ids(store, clock) == [run.run_id]
    assert await store.apply(Expire(run.run_id))
    assert await claim_runs(store, a_claim(await register_instance(store))) == ()


@pytest.mark.proves("R4.14")
async def test_waiting_for_a_person_counts_towards_the_execution_timeout(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store, timeout_s=10)
    await store.apply(ReleaseSlot(claim_of(run)))
    clock.advance(10)
    assert await read_due_ids(store, clock) == [run.run_id]
    assert await store.apply(Expire(run.run_id))
    assert await read_status(store, run.run_id) is RunStatus.TIMED_OUT


@pytest.mark.proves("R4.14")
async def test_parked_time_does_not_count_towards_the_execution_timeout(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store, timeout_s=10)
    clock.advance(4)
    assert await store.apply(Park(claim_of(run)))
    clock.advance(1e6)
    assert await read_due_ids(store, clock) == []
    assert await store.apply(Expire(run.run_id)) is False
    assert await store.apply(Wake(run.run_id))
    clock.advance(1000)  # The wait for a slot does not count either.
    again = await claim_run(store, await register_instance(store))
    assert again.run_deadline_at == add_seconds(clock(), seconds=6)
    clock.advance(5.999999)
    assert await store.apply(Expire(run.run_id)) is False
    clock.advance(0.000001)
    assert await read_due_ids(store, clock) == [run.run_id]
    assert await store.apply(Expire(run.run_id))


@pytest.mark.proves("R4.14")
async def test_run_without_a_timeout_has_no_deadline_after_parking(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store)
    await store.apply(Park(claim_of(run)))
    await store.apply(Wake(run.run_id))
    assert (await claim_run(store, await register_instance(store))).run_deadline_at is None


@pytest.mark.proves("I18")
async def test_timer_does_not_fire_early(store: SqlStore, clock: FakeClock) -> None:
    run = await start_run(store)
    wake_at = add_seconds(clock(), seconds=60)
    assert await store.apply(Park(claim_of(run), wake_at))
    clock.advance(59.999999)
    assert await read_due_ids(store, clock) == []
    before = await read_all(store)
    assert await store.apply(Wake(run.run_id)) is False
    assert await read_all(store) == before
    clock.advance(0.000001)
    assert await read_due_ids(store, clock) == [run.run_id]
    assert await store.apply(Wake(run.run_id)) is True
    assert await read_due_ids(store, clock) == []
    assert await store.apply(Wake(run.run_id)) is False  # It fires once.
    again = await claim_run(store, await register_instance(store))
    assert (again.run_id, again.generation) == (run.run_id, 2)


@pytest.mark.proves("I18")
async def test_clock_that_jumps_back_delays_a_timer_and_never_repeats_it(
    store: SqlStore, clock: FakeClock
) -> None:
    run = await start_run(store)
    await store.apply(Park(claim_of(run), add_seconds(clock(), seconds=60)))
    clock.advance(-3600)
    assert await store.apply(Wake(run.run_id)) is False
    clock.advance(3660)
    assert await store.apply(Wake(run.run_id)) is True
    clock.advance(-3600)
    assert await store.apply(Wake(run.run_id)) is False


@pytest.mark.proves("I18")
async def test_timer_in_the_past_fires_at_once(store: SqlStore, clock: FakeClock) -> None:
    run = await start_run(store)
    assert await store.apply(Park(claim_of(run), clock()))
    assert (await claim_run(store, await register_instance(store))).run_id == run.run_id


@pytest.mark.proves("I18")
@pytest.mark.parametrize("timeout_s", [None, 10.0])
async def test_early_message_wakes_the_run_and_clears_the_timer(
    store: SqlStore, clock: FakeClock, timeout_s: float | None
) -> None:
    claimed_run = await start_run(store, timeout_s=timeout_s)
    await store.apply(Park(claim_of(claimed_run), add_seconds(clock(), seconds=60)))
    await store.apply(a_message(claimed_run.run_id))
    run = await read_run(store, claimed_run.run_id)
    assert (run.wake_at, run.due_at) == (None, None)
    assert (await claim_run(store, await register_instance(store))).run_id == claimed_run.run_id
