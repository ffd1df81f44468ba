"""The clocks of a run: found by a checker that runs on its own (R2.8), never early (I18)."""

import json

import pytest

from headway.adapters.sql.connect.database_clock import DatabaseClock, machine_now
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.expire import Expire
from headway.core.command.run.settle import Complete, TooLate
from headway.core.command.run.wait import Park, ReleaseSlot, Retry, Wake
from headway.core.ids import SECOND_US, Instant, RunId, add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.services.engine import sweep as sweeping
from headway.services.engine.sweep import sweep
from headway.testing import FakeClock, a_claim, a_message, an_error, claim_of
from headway.testing.locks import NO_LOCKS
from tests.contract.backends import Place, read_all
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
)


async def due(store: SqlStore, clock: FakeClock) -> list[RunId]:
    return [run.id for run in await store.runs.runs_due(clock(), limit=100)]


@pytest.mark.proves("R2.8")
async def test_a_run_that_waited_too_long_is_timed_out(store: SqlStore, clock: FakeClock) -> None:
    run_id = await submitted(store, queue_timeout_s=10)
    clock.advance(9.999999)
    assert await due(store, clock) == []
    assert await store.apply(Expire(run_id)) is False
    clock.advance(0.000001)
    assert await due(store, clock) == [run_id]
    assert await store.apply(Expire(run_id))
    assert await store.apply(Expire(run_id)) is False
    assert await due(store, clock) == []
    assert await moves(store, run_id) == [(None, "queued"), ("queued", "timed_out")]
    (*_, event) = await events(store, run_id)
    assert json.loads(event.payload)["clock"] == "queue"


@pytest.mark.proves("R2.8")
async def test_a_run_that_timed_out_says_which_clock_has_ended_it(
    store: SqlStore, clock: FakeClock
) -> None:
    started = await running(store, "started", timeout_s=1.5)
    resumed = await running(store, "resumed", timeout_s=20, by=await instance(store))
    await store.apply(Retry(claim_of(resumed), an_error(), 0.0))
    await claimed_one(store, await instance(store))
    queued = await submitted(store, "queued", queue_timeout_s=30)
    clock.advance(31.25)
    said = {}
    for run_id in (queued, started.run_id, resumed.run_id):
        assert await store.apply(Expire(run_id))
        said[run_id] = json.loads((await record(store, run_id)).error or "")
        (*_, event) = await events(store, run_id)
        assert json.loads(event.payload)["error"] == said[run_id]
    assert said == {
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
async def test_the_sweep_goes_by_the_databases_clock(store: SqlStore, clock: FakeClock) -> None:
    """There it is another century: by this machine's clock nothing would be due for long."""
    clock.advance(100 * 366 * 86_400)
    run_id = await submitted(store, queue_timeout_s=10)
    orphan = await running(store, "orphan", lane="aside", by=await instance(store, ttl_s=10))
    clock.advance(9.999999)
    await sweep(store, store.runs, NO_LOCKS)
    assert await status(store, run_id) is RunStatus.QUEUED
    assert (await state(store, orphan.run_id)).token == orphan.token
    clock.advance(0.000001)
    await sweep(store, store.runs, NO_LOCKS)
    assert await status(store, run_id) is RunStatus.TIMED_OUT
    assert (await state(store, orphan.run_id)).death_count == 1


@pytest.mark.proves("R2.8")
async def test_the_sweep_goes_on_while_more_is_due(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "COUNT_MAX", 2)
    run_ids = [await submitted(store, f"key-{one}", queue_timeout_s=10) for one in range(5)]
    dead = await instance(store, ttl_s=10)
    orphans = [await running(store, f"o-{one}", lane=f"o-{one}", by=dead) for one in range(5)]
    clock.advance(10)
    await sweep(store, store.runs, NO_LOCKS)
    assert {await status(store, run_id) for run_id in run_ids} == {RunStatus.TIMED_OUT}
    assert {(await state(store, one.run_id)).death_count for one in orphans} == {1}
    assert dead not in {one.id for one in await store.runs.instances()}


@pytest.mark.proves("I18")
async def test_a_machine_whose_clock_is_wrong_asks_the_servers(
    store: SqlStore, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also about who is alive: the lease, of the tests' own time, is over by any right clock."""
    await instance(store)
    database = store._database
    monkeypatch.setattr(
        "headway.adapters.sql.connect.database_clock.machine_now", lambda: Instant(0)
    )
    monkeypatch.setattr(database, "clock", DatabaseClock(database.driver, None))
    now, figures = await store.runs.now(), await store.board.metrics()
    assert abs(now - machine_now()) < 3_600 * SECOND_US if place.is_server else now == 0
    assert figures.instance_count == (0 if place.is_server else 1)


@pytest.mark.proves("R2.8")
async def test_a_run_that_executed_too_long_is_timed_out_and_its_claim_void(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store, timeout_s=10)
    assert one.run_deadline_at == add_seconds(clock(), seconds=10)
    behind = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    clock.advance(9.999999)
    assert await due(store, clock) == []
    assert await store.apply(Expire(one.run_id)) is False
    clock.advance(0.000001)
    assert await due(store, clock) == [one.run_id]
    assert await store.apply(Expire(one.run_id))
    assert (await lane_view(store)).held_count == 0
    assert await store.apply(Complete(claim_of(one))) == TooLate(RunStatus.TIMED_OUT)
    (*_, event) = await events(store, one.run_id)
    error = {
        "code": "execution_timeout",
        "message": "executed for longer than its timeout_s, which is 10",
    }
    payload = {"from": "running", "to": "timed_out", "clock": "execution", "error": error}
    assert json.loads(event.payload) == payload
    assert (await claimed_one(store, await instance(store))).run_id == behind


@pytest.mark.proves("R2.8")
async def test_the_wait_does_not_count_towards_the_execution(
    store: SqlStore, clock: FakeClock
) -> None:
    """R1.12: run time counts from the start of running."""
    run_id = await submitted(store, timeout_s=10, queue_timeout_s=100)
    clock.advance(99)
    await claimed_one(store, await instance(store))
    clock.advance(9)
    assert await due(store, clock) == []
    clock.advance(1)
    assert await due(store, clock) == [run_id]


@pytest.mark.proves("R2.8")
async def test_a_run_that_has_started_cannot_be_late_in_the_queue(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store, queue_timeout_s=10)
    clock.advance(1e6)
    assert await due(store, clock) == []
    assert await store.apply(Expire(one.run_id)) is False


@pytest.mark.proves("R2.8")
async def test_a_run_waiting_behind_another_times_out_too(
    store: SqlStore, clock: FakeClock
) -> None:
    head = await submitted(store)
    behind = await submitted(store, on_conflict=OnConflict.ENQUEUE, queue_timeout_s=10)
    clock.advance(10)
    assert await due(store, clock) == [behind]
    assert await store.apply(Expire(behind))
    assert (await state(store, head)).head_key == "ann"


@pytest.mark.proves("R2.8")
async def test_what_is_longest_overdue_comes_first(store: SqlStore, clock: FakeClock) -> None:
    slow = await submitted(store, "slow", queue_timeout_s=30)
    quick = await submitted(store, "quick", queue_timeout_s=10)
    await submitted(store, "never")
    clock.advance(60)
    assert await due(store, clock) == [quick, slow]
    assert [run.id for run in await store.runs.runs_due(clock(), limit=1)] == [quick]


@pytest.mark.proves("R2.8")
async def test_time_goes_on_while_nobody_holds_an_orphan(store: SqlStore, clock: FakeClock) -> None:
    """A run that was lost is not given more time than it was promised."""
    one = await running(store, timeout_s=10)
    clock.advance(6)
    await orphaned(store, one.run_id)
    clock.advance(4)
    assert await due(store, clock) == [one.run_id]
    assert await store.apply(Expire(one.run_id))
    assert await claimed(store, a_claim(await instance(store))) == ()


@pytest.mark.proves("R4.14")
async def test_waiting_for_a_person_counts_towards_the_execution(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store, timeout_s=10)
    await store.apply(ReleaseSlot(claim_of(one)))
    clock.advance(10)
    assert await due(store, clock) == [one.run_id]
    assert await store.apply(Expire(one.run_id))
    assert await status(store, one.run_id) is RunStatus.TIMED_OUT


@pytest.mark.proves("R4.14")
async def test_parked_time_does_not_count(store: SqlStore, clock: FakeClock) -> None:
    one = await running(store, timeout_s=10)
    clock.advance(4)
    assert await store.apply(Park(claim_of(one)))
    clock.advance(1e6)
    assert await due(store, clock) == []
    assert await store.apply(Expire(one.run_id)) is False
    assert await store.apply(Wake(one.run_id))
    clock.advance(1000)  # Nor does the wait for a slot.
    again = await claimed_one(store, await instance(store))
    assert again.run_deadline_at == add_seconds(clock(), seconds=6)
    clock.advance(5.999999)
    assert await store.apply(Expire(one.run_id)) is False
    clock.advance(0.000001)
    assert await due(store, clock) == [one.run_id]
    assert await store.apply(Expire(one.run_id))


@pytest.mark.proves("R4.14")
async def test_a_run_without_a_limit_keeps_none_through_parking(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store)
    await store.apply(Park(claim_of(one)))
    await store.apply(Wake(one.run_id))
    assert (await claimed_one(store, await instance(store))).run_deadline_at is None


@pytest.mark.proves("I18")
async def test_a_timer_does_not_fire_early(store: SqlStore, clock: FakeClock) -> None:
    one = await running(store)
    wake_at = add_seconds(clock(), seconds=60)
    assert await store.apply(Park(claim_of(one), wake_at))
    clock.advance(59.999999)
    assert await due(store, clock) == []
    before = await read_all(store)
    assert await store.apply(Wake(one.run_id)) is False
    assert await read_all(store) == before
    clock.advance(0.000001)
    assert await due(store, clock) == [one.run_id]
    assert await store.apply(Wake(one.run_id)) is True
    assert await due(store, clock) == []
    assert await store.apply(Wake(one.run_id)) is False  # It fires once.
    again = await claimed_one(store, await instance(store))
    assert (again.run_id, again.generation) == (one.run_id, 2)


@pytest.mark.proves("I18")
async def test_a_clock_that_jumps_back_delays_a_timer_and_never_repeats_it(
    store: SqlStore, clock: FakeClock
) -> None:
    one = await running(store)
    await store.apply(Park(claim_of(one), add_seconds(clock(), seconds=60)))
    clock.advance(-3600)
    assert await store.apply(Wake(one.run_id)) is False
    clock.advance(3660)
    assert await store.apply(Wake(one.run_id)) is True
    clock.advance(-3600)
    assert await store.apply(Wake(one.run_id)) is False


@pytest.mark.proves("I18")
async def test_a_timer_in_the_past_fires_at_once(store: SqlStore, clock: FakeClock) -> None:
    one = await running(store)
    assert await store.apply(Park(claim_of(one), clock()))
    assert (await claimed_one(store, await instance(store))).run_id == one.run_id


@pytest.mark.proves("I18")
@pytest.mark.parametrize("timeout_s", [None, 10.0])
async def test_an_early_message_wakes_and_unsets_the_timer(
    store: SqlStore, clock: FakeClock, timeout_s: float | None
) -> None:
    one = await running(store, timeout_s=timeout_s)
    await store.apply(Park(claim_of(one), add_seconds(clock(), seconds=60)))
    await store.apply(a_message(one.run_id))
    run = await state(store, one.run_id)
    assert (run.wake_at, run.due_at) == (None, None)
    assert (await claimed_one(store, await instance(store))).run_id == one.run_id
