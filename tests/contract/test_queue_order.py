"""The order of starts: within a key, within a lane, and after a wait (I9, I10)."""

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot, SlotResult, Wake
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.testing import FakeClock, a_claim, a_submit, an_error, claim_of
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_run,
    claim_runs,
    orphan_run,
    raise_limit,
    read_event_types,
    read_lane,
    read_run,
    register_instance,
    start_run,
    submit_run,
)


@pytest.mark.proves("I9")
async def test_key_keeps_its_order_through_deaths_and_failures(store: SqlStore) -> None:
    run_ids = [await submit_run(store)]
    run_ids += [await submit_run(store, on_conflict=OnConflict.ENQUEUE) for _ in range(3)]
    holder = await register_instance(store)
    finished = []
    for number, run_id in enumerate(run_ids):
        run = await claim_run(store, holder)
        if number % 2:
            await orphan_run(store, run_id)
            holder = await register_instance(store)
            run = await claim_run(store, holder)
        await store.apply(Fail(claim_of(run), an_error()))
        finished.append(run.run_id)
    assert finished == run_ids


@pytest.mark.proves("I5", "I11")
async def test_cancelling_run_keeps_its_slot_until_it_ends(store: SqlStore) -> None:
    await raise_limit(store, 1)
    holder = await register_instance(store)
    first = await start_run(store, "ann", by=holder)
    await store.apply(RequestCancel(run_id=first.run_id))
    second_id = await submit_run(store, "bob")
    assert await claim_runs(store, a_claim(holder)) == ()
    await store.apply(ConfirmCancel(claim_of(first)))
    assert (await claim_run(store, holder)).run_id == second_id


@pytest.mark.proves("I9")
async def test_order_depends_neither_on_the_clock_nor_on_the_ids(
    store: SqlStore, clock: FakeClock
) -> None:
    """The clock jumps back between two submissions and stands still between others."""
    run_ids = [await submit_run(store, run_id="run-9")]
    for name, seconds in (("run-8", 0), ("run-7", -60), ("run-6", 0)):
        clock.advance(seconds)
        run_ids += [await submit_run(store, run_id=name, on_conflict=OnConflict.ENQUEUE)]
    holder = await register_instance(store)
    for expected in run_ids:
        run = await claim_run(store, holder)
        assert run.run_id == expected
        await store.apply(Complete(claim_of(run)))


@pytest.mark.proves("I9")
async def test_canceled_run_in_the_middle_keeps_the_order_of_the_others(
    store: SqlStore,
) -> None:
    run_ids = [await submit_run(store)]
    run_ids += [await submit_run(store, on_conflict=OnConflict.ENQUEUE) for _ in range(3)]
    await store.apply(RequestCancel(run_id=run_ids[2]))
    await store.apply(RequestCancel(run_id=run_ids[0]))
    holder = await register_instance(store)
    for expected in (run_ids[1], run_ids[3]):
        run = await claim_run(store, holder)
        assert run.run_id == expected
        await store.apply(Complete(claim_of(run)))


@pytest.mark.proves("I9")
async def test_key_passes_to_the_right_run_if_several_of_its_runs_end_in_one_batch(
    store: SqlStore,
) -> None:
    """In one batch the head and the two behind it end, so the fourth is next."""
    run_ids = [await submit_run(store)]
    run_ids += [await submit_run(store, on_conflict=OnConflict.ENQUEUE) for _ in range(5)]
    cancels = [RequestCancel(run_id=run_ids[number]) for number in (1, 0, 2)]
    await apply_in_one_batch(store, *cancels, a_submit(on_conflict=OnConflict.ENQUEUE))
    assert (await read_run(store, run_ids[3])).head_key == "ann"
    assert [(await read_run(store, run_id)).waiting_key for run_id in run_ids[4:]] == ["ann"] * 2
    run, *_ = await claim_runs(store, a_claim(await register_instance(store), count=9))
    assert run.run_id == run_ids[3]


@pytest.mark.proves("I9")
async def test_keys_start_in_the_order_in_which_they_became_ready(store: SqlStore) -> None:
    """The second run of a key is ready when the first has ended, not when it was submitted."""
    holder = await register_instance(store)
    await raise_limit(store, 1)
    run = await start_run(store, "ann", by=holder)
    second_of_ann = await submit_run(store, "ann", on_conflict=OnConflict.ENQUEUE)
    bob = await submit_run(store, "bob")
    await store.apply(Complete(claim_of(run)))
    carl = await submit_run(store, "carl")
    order = []
    for _ in range(3):
        run = await claim_run(store, holder)
        order.append(run.run_id)
        await store.apply(Complete(claim_of(run)))
    assert order == [bob, second_of_ann, carl]


@pytest.mark.proves("I10")
async def test_key_with_a_thousand_queued_runs_does_not_starve_the_others(
    store: SqlStore,
) -> None:
    await raise_limit(store, 1)
    crowd = [a_submit("crowd", on_conflict=OnConflict.ENQUEUE) for _ in range(1000)]
    await apply_in_one_batch(store, *crowd)
    lonely = await submit_run(store, "lonely")
    holder = await register_instance(store)
    first = await claim_run(store, holder)
    assert first.run_id == crowd[0].run_id
    await store.apply(Complete(claim_of(first)))
    second = await claim_run(store, holder)
    assert second.run_id == lonely
    await store.apply(Complete(claim_of(second)))
    assert (await claim_run(store, holder)).run_id == crowd[1].run_id
    assert (await read_lane(store)).queued_count == 998


@pytest.mark.proves("R1.12")
async def test_new_run_queues_behind_waiting_ones_even_if_a_slot_is_free(
    store: SqlStore,
) -> None:
    holder = await register_instance(store)
    await raise_limit(store, 1)
    first = await start_run(store, "ann", by=holder)
    waiting = await submit_run(store, "bob")
    await store.apply(Complete(claim_of(first)))
    assert (await read_lane(store)).held_count == 0
    # In one batch, as by two processes at the same moment.
    newcomer = a_submit(key="cat")
    _, claimed_now = await apply_in_one_batch(store, newcomer, a_claim(holder, count=1))
    assert [run.run_id for run in claimed_now] == [waiting]


@pytest.mark.proves("I9")
async def test_runs_of_unregistered_jobs_neither_block_nor_vanish(store: SqlStore) -> None:
    unregistered = [await submit_run(store, f"strange-{n}", job="strange") for n in range(5)]
    registered = await submit_run(store, "known", job="mirror")
    holder = await register_instance(store)
    assert [run.run_id for run in await claim_runs(store, a_claim(holder, count=9))] == [registered]
    expert = await register_instance(store)
    learned = await claim_runs(store, a_claim(expert, jobs=["strange", "mirror"], count=9))
    assert [run.run_id for run in learned] == unregistered[:2]


@pytest.mark.proves("I9")
async def test_each_claim_of_a_batch_gets_only_runs_of_its_own_jobs(store: SqlStore) -> None:
    """Runs that one claim skips are still available to the next claim of the batch."""
    await raise_limit(store, 10)
    red = [await submit_run(store, f"red-{n}", job="red") for n in range(2)]
    blue = [await submit_run(store, f"blue-{n}", job="blue") for n in range(2)]
    holder = await register_instance(store)
    first, second, third = await apply_in_one_batch(
        store,
        a_claim(holder, jobs=["blue"], count=9),
        a_claim(holder, jobs=["red"], count=1),
        a_claim(holder, jobs=["red", "blue"], count=9),
    )
    assert [run.run_id for run in first] == blue
    assert [run.run_id for run in second] == red[:1]
    assert [run.run_id for run in third] == red[1:]


@pytest.mark.proves("I9")
async def test_claims_of_several_instances_in_one_batch_fill_every_slot(
    store: SqlStore,
) -> None:
    """The claims have the same effect as if each had come in a batch of its own."""
    await raise_limit(store, 10)
    run_ids = [await submit_run(store, f"key-{number}") for number in range(6)]
    holders = [await register_instance(store) for _ in range(3)]
    answers = await apply_in_one_batch(store, *(a_claim(holder, count=2) for holder in holders))
    assert [run.run_id for answer in answers for run in answer] == run_ids


@pytest.mark.proves("I9")
async def test_resumed_runs_start_before_new_runs(store: SqlStore) -> None:
    await raise_limit(store, 1)
    holder = await register_instance(store)
    waiter = await start_run(store, "waiter", by=holder)
    assert await store.apply(ReleaseSlot(claim_of(waiter)))
    parked = await start_run(store, "parked", by=holder)
    assert await store.apply(Park(claim_of(parked)))
    orphan = await start_run(store, "orphan")
    await submit_run(store, "new")
    await orphan_run(store, orphan.run_id)
    assert await store.apply(Wake(parked.run_id))
    assert await store.apply(RequestSlot(claim_of(waiter))) is SlotResult.QUEUED
    order = []
    for _ in range(4):
        run = await claim_run(store, holder)
        order.append(run.key)
        await store.apply(Complete(claim_of(run)))
    assert order == ["orphan", "parked", "waiter", "new"]


@pytest.mark.proves("I9")
async def test_run_that_releases_its_slot_keeps_its_key(store: SqlStore) -> None:
    await raise_limit(store, 1)
    holder = await register_instance(store)
    waiter = await start_run(store, "waiter", by=holder)
    await submit_run(store, "waiter", on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(ReleaseSlot(claim_of(waiter)))
    assert await store.apply(ReleaseSlot(claim_of(waiter)))  # A second release has no effect.
    other = await submit_run(store, "other")
    assert [run.run_id for run in await claim_runs(store, a_claim(holder, count=9))] == [other]
    run = await read_run(store, waiter.run_id)
    assert (run.slot, run.token, run.head_key) == (None, waiter.token, "waiter")
    assert (await read_event_types(store, waiter.run_id)).count(EventType.WAITING) == 1


@pytest.mark.proves("I9")
async def test_run_that_requests_its_slot_again_keeps_its_claim(store: SqlStore) -> None:
    holder, stranger = await register_instance(store), await register_instance(store)
    waiter = await start_run(store, by=holder)
    claim = claim_of(waiter)
    assert await store.apply(RequestSlot(claim)) is SlotResult.HELD  # It already has one.
    await store.apply(ReleaseSlot(claim))
    assert await claim_runs(store, a_claim(holder)) == ()  # It has not requested a slot yet.
    assert await store.apply(RequestSlot(claim)) is SlotResult.QUEUED
    assert await store.apply(RequestSlot(claim)) is SlotResult.QUEUED  # Still queued.
    assert await claim_runs(store, a_claim(stranger)) == ()
    again = await claim_run(store, holder)
    assert (again.run_id, again.token, again.generation) == (*claim, 1)
    assert again.is_resumed
    assert (await read_event_types(store, claim.run_id))[2:] == [
        EventType.WAITING,
        EventType.WOKEN,
        EventType.RESUMED,
    ]
    assert (await read_lane(store)).held_count == 1


@pytest.mark.proves("I5")
async def test_run_that_requests_a_slot_waits_for_a_free_one(store: SqlStore) -> None:
    await raise_limit(store, 1)
    holder = await register_instance(store)
    waiter = await start_run(store, "waiter", by=holder)
    await store.apply(ReleaseSlot(claim_of(waiter)))
    other = await start_run(store, "other", by=holder)
    await store.apply(RequestSlot(claim_of(waiter)))
    assert await claim_runs(store, a_claim(holder)) == ()
    # In one batch the end frees the slot, and the claim gives it to the run that waited.
    await submit_run(store, "new")
    _, (run,) = await apply_in_one_batch(store, Complete(claim_of(other)), a_claim(holder, count=9))
    assert run.run_id == waiter.run_id


@pytest.mark.proves("I9")
async def test_run_that_becomes_ready_in_a_batch_can_be_claimed_in_it(store: SqlStore) -> None:
    holder = await register_instance(store)
    waiter = await start_run(store, "waiter", by=holder)
    parked = await start_run(store, "parked", by=holder)
    await store.apply(ReleaseSlot(claim_of(waiter)))
    await store.apply(Park(claim_of(parked)))
    *_, runs = await apply_in_one_batch(
        store,
        a_submit("new", params={"n": 1}),
        Wake(parked.run_id),
        RequestSlot(claim_of(waiter)),
        a_claim(holder, count=9),
    )
    assert [run.key for run in runs] == ["parked", "waiter", "new"]
    assert [run.params for run in runs] == ["{}", "{}", '{"n":1}']
