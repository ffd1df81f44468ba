"""A parked run has no holder and no slot until it is woken."""

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
    claim_run,
    claim_runs,
    raise_limit,
    read_event_types,
    read_lane,
    read_run,
    read_transitions,
    register_instance,
    start_run,
    submit_run,
)


@pytest.mark.proves("R4.14")
async def test_parked_run_holds_nothing_but_its_key(store: SqlStore) -> None:
    claimed_run = await start_run(store)
    await store.apply(SetWindow(claim_of(claimed_run), Window.STREAMING))
    assert await store.apply(Park(claim_of(claimed_run))) is True
    run = await read_run(store, claimed_run.run_id)
    assert (run.status, run.is_parked) == (RunStatus.RUNNING, True)
    assert (run.slot, run.token, run.instance_id) == (None, NO_TOKEN, None)
    assert (run.window, run.queue_rank, run.head_key) == (0, None, "ann")
    assert (await read_lane(store)).held_count == 0
    assert await claim_runs(store, a_claim(await register_instance(store))) == ()
    assert await store.apply(a_submit()) == Busy(claimed_run.run_id)


@pytest.mark.proves("I18")
async def test_sweep_returns_the_next_run_to_wake_and_it_is_woken_on_time(
    store: SqlStore, clock: FakeClock
) -> None:
    """The run is not woken early, nor by a program that stops; the next sweep finds it."""
    run = await start_run(store)
    await store.apply(Park(claim_of(run), wake_at=add_seconds(clock(), seconds=1.5)))
    far = await start_run(store, "far")
    await store.apply(Park(claim_of(far), wake_at=add_seconds(clock(), seconds=90)))
    soon = await sweep(store, store.runs, NO_LOCKS)
    assert [run_id for _, run_id in soon] == [run.run_id]
    stopped, awaited, due_now = asyncio.Event(), {run.run_id}, [(-1.0, run.run_id)]
    await wake_on_time(store, due_now, pending_ids=awaited, stop_event=stopped)
    assert (await read_run(store, run.run_id)).is_parked
    assert awaited == set()
    clock.advance(2)
    stopped.set()
    await wake_on_time(store, due_now, pending_ids=awaited, stop_event=stopped)
    assert (await read_run(store, run.run_id)).is_parked
    stopped.clear()
    await wake_on_time(store, due_now, pending_ids=awaited, stop_event=stopped)
    assert not (await read_run(store, run.run_id)).is_parked


@pytest.mark.proves("R4.14")
async def test_woken_run_continues_from_its_checkpoint_under_a_new_claim(
    store: SqlStore,
) -> None:
    run = await start_run(store, params={"n": 1})
    await store.apply(SaveCheckpoint(claim_of(run), document({"page": 2})))
    await store.apply(Park(claim_of(run)))
    assert await store.apply(Wake(run.run_id)) is True
    again = await claim_run(store, await register_instance(store))
    assert (again.run_id, again.generation, again.is_resumed) == (run.run_id, 2, False)
    assert (again.params, again.checkpoint) == ('{"n":1}', '{"page":2}')
    assert again.token != run.token
    assert await read_transitions(store, run.run_id) == [(None, "queued"), ("queued", "running")]
    assert (await read_event_types(store, run.run_id))[2:] == [
        EventType.CHECKPOINT,
        EventType.PARKED,
        EventType.WOKEN,
        EventType.RESUMED,
    ]


@pytest.mark.proves("R4.14")
async def test_only_parked_runs_are_woken(store: SqlStore) -> None:
    holder = await register_instance(store)
    queued = await submit_run(store, "queued")
    running_id = await claim_after(store, queued)
    waiter = await start_run(store, "waiter", by=holder)
    await store.apply(ReleaseSlot(claim_of(waiter)))
    before = await read_all(store)
    for run_id in (running_id, waiter.run_id, RunId("none")):
        assert await store.apply(Wake(run_id)) is False
    assert await read_all(store) == before


async def claim_after(store: SqlStore, run_id: RunId) -> RunId:
    run = await claim_run(store, await register_instance(store))
    assert run.run_id == run_id
    return run.run_id


@pytest.mark.proves("R4.14")
async def test_run_with_an_unread_message_is_woken_as_soon_as_it_parks(store: SqlStore) -> None:
    claimed_run = await start_run(store)
    await store.apply(a_message(claimed_run.run_id))
    assert await store.apply(Park(claim_of(claimed_run)))
    run = await read_run(store, claimed_run.run_id)
    assert (run.is_parked, run.unread_count) == (False, 1)
    assert (await claim_run(store, await register_instance(store))).run_id == claimed_run.run_id


@pytest.mark.proves("R4.14")
async def test_run_that_receives_a_message_while_it_parks_is_always_woken(
    store: SqlStore, another_store: SqlStore
) -> None:
    holder = await register_instance(store)
    await raise_limit(store, 100)
    for number in range(20):
        run = await start_run(store, f"key-{number}", by=holder)
        await asyncio.gather(
            store.apply(Park(claim_of(run))), another_store.apply(a_message(run.run_id))
        )
        assert (await claim_run(store, holder)).run_id == run.run_id


@pytest.mark.proves("R4.14")
async def test_run_can_park_while_it_waits_for_a_slot(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(ReleaseSlot(claim_of(run)))
    await store.apply(RequestSlot(claim_of(run)))
    assert await store.apply(Park(claim_of(run)))
    assert await claim_runs(store, a_claim(await register_instance(store))) == ()
    assert await store.apply(Wake(run.run_id))


@pytest.mark.proves("R4.14")
async def test_runs_behind_a_parked_run_wait_until_it_has_ended(store: SqlStore) -> None:
    run = await start_run(store)
    behind = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    await store.apply(Park(claim_of(run)))
    holder = await register_instance(store)
    assert await claim_runs(store, a_claim(holder, count=9)) == ()
    await store.apply(Wake(run.run_id))
    again = await claim_run(store, holder, count=9)
    await store.apply(Complete(claim_of(again)))
    assert (await claim_run(store, holder)).run_id == behind
