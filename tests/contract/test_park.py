"""Parked: held by nobody, without a slot, until something wakes it."""

import asyncio

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.report import SaveCheckpoint, SetWindow
from headway.core.command.run.settle import Complete
from headway.core.command.run.submit import Busy
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot, Wake
from headway.core.ids import RunId, add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.core.run.run import NO_TOKEN
from headway.core.run.status import RunStatus
from headway.core.run.window import Window
from headway.services.engine.sweep import sweep, wake_on_time
from headway.testing import FakeClock, a_claim, a_message, a_submit, claim_of, document
from headway.testing.locks import NO_LOCKS
from tests.contract.backends import read_all
from tests.contract.scenes import (
    claimed,
    claimed_one,
    instance,
    kinds,
    lane_view,
    moves,
    raise_limit,
    running,
    state,
    submitted,
)


@pytest.mark.proves("R4.14")
async def test_a_parked_run_holds_nothing_but_its_key(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(SetWindow(claim_of(one), Window.STREAMING))
    assert await store.apply(Park(claim_of(one))) is True
    run = await state(store, one.run_id)
    assert (run.status, run.is_parked) == (RunStatus.RUNNING, True)
    assert (run.slot, run.token, run.instance_id) == (None, NO_TOKEN, None)
    assert (run.window, run.queue_rank, run.head_key) == (0, None, "ann")
    assert (await lane_view(store)).held_count == 0
    assert await claimed(store, a_claim(await instance(store))) == ()
    assert await store.apply(a_submit()) == Busy(one.run_id)


@pytest.mark.proves("I18")
async def test_a_sweep_tells_whose_timer_ends_soon_and_that_one_is_woken_on_time(
    store: SqlStore, clock: FakeClock
) -> None:
    """And never too early, nor by a program that stops: the next sweep finds it."""
    one = await running(store)
    await store.apply(Park(claim_of(one), wake_at=add_seconds(clock(), seconds=1.5)))
    far = await running(store, "far")
    await store.apply(Park(claim_of(far), wake_at=add_seconds(clock(), seconds=90)))
    soon = await sweep(store, store.runs, NO_LOCKS)
    assert [run_id for _, run_id in soon] == [one.run_id]
    stopped, awaited, due_now = asyncio.Event(), {one.run_id}, [(-1.0, one.run_id)]
    await wake_on_time(store, due_now, pending_ids=awaited, stop_event=stopped)
    assert (await state(store, one.run_id)).is_parked
    assert awaited == set()
    clock.advance(2)
    stopped.set()
    await wake_on_time(store, due_now, pending_ids=awaited, stop_event=stopped)
    assert (await state(store, one.run_id)).is_parked
    stopped.clear()
    await wake_on_time(store, due_now, pending_ids=awaited, stop_event=stopped)
    assert not (await state(store, one.run_id)).is_parked


@pytest.mark.proves("R4.14")
async def test_a_woken_run_goes_on_from_its_checkpoint_under_a_new_claim(
    store: SqlStore,
) -> None:
    one = await running(store, params={"n": 1})
    await store.apply(SaveCheckpoint(claim_of(one), document({"page": 2})))
    await store.apply(Park(claim_of(one)))
    assert await store.apply(Wake(one.run_id)) is True
    again = await claimed_one(store, await instance(store))
    assert (again.run_id, again.generation, again.is_resumed) == (one.run_id, 2, False)
    assert (again.params, again.checkpoint) == ('{"n":1}', '{"page":2}')
    assert again.token != one.token
    assert await moves(store, one.run_id) == [(None, "queued"), ("queued", "running")]
    assert (await kinds(store, one.run_id))[2:] == [
        EventType.CHECKPOINT,
        EventType.PARKED,
        EventType.WOKEN,
        EventType.RESUMED,
    ]


@pytest.mark.proves("R4.14")
async def test_only_what_is_parked_is_woken(store: SqlStore) -> None:
    holder = await instance(store)
    queued = await submitted(store, "queued")
    one = await running_after(store, queued)
    waiter = await running(store, "waiter", by=holder)
    await store.apply(ReleaseSlot(claim_of(waiter)))
    before = await read_all(store)
    for run_id in (one, waiter.run_id, RunId("none")):
        assert await store.apply(Wake(run_id)) is False
    assert await read_all(store) == before


async def running_after(store: SqlStore, run_id: RunId) -> RunId:
    one = await claimed_one(store, await instance(store))
    assert one.run_id == run_id
    return one.run_id


@pytest.mark.proves("R4.14")
async def test_what_came_before_it_parked_wakes_it_at_once(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(a_message(one.run_id))
    assert await store.apply(Park(claim_of(one)))
    run = await state(store, one.run_id)
    assert (run.is_parked, run.unread_count) == (False, 1)
    assert (await claimed_one(store, await instance(store))).run_id == one.run_id


@pytest.mark.proves("R4.14")
async def test_a_message_and_the_parking_at_once_never_miss_each_other(
    store: SqlStore, another_store: SqlStore
) -> None:
    holder = await instance(store)
    await raise_limit(store, 100)
    for number in range(20):
        one = await running(store, f"key-{number}", by=holder)
        await asyncio.gather(
            store.apply(Park(claim_of(one))), another_store.apply(a_message(one.run_id))
        )
        assert (await claimed_one(store, holder)).run_id == one.run_id


@pytest.mark.proves("R4.14")
async def test_a_run_can_park_while_it_waits_for_a_slot(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(ReleaseSlot(claim_of(one)))
    await store.apply(RequestSlot(claim_of(one)))
    assert await store.apply(Park(claim_of(one)))
    assert await claimed(store, a_claim(await instance(store))) == ()
    assert await store.apply(Wake(one.run_id))


@pytest.mark.proves("R4.14")
async def test_those_behind_a_parked_run_wait_until_it_has_ended(store: SqlStore) -> None:
    one = await running(store)
    behind = await submitted(store, on_conflict=OnConflict.ENQUEUE)
    await store.apply(Park(claim_of(one)))
    holder = await instance(store)
    assert await claimed(store, a_claim(holder, count=9)) == ()
    await store.apply(Wake(one.run_id))
    again = await claimed_one(store, holder, count=9)
    await store.apply(Complete(claim_of(again)))
    assert (await claimed_one(store, holder)).run_id == behind
