"""Who is next: within a key, within a lane, and after a wait (I9, I10)."""

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot, SlotResult, Wake
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.testing import FakeClock, a_claim, a_submit, an_error, claim_of
from tests.contract.scenes import (
    claimed,
    claimed_one,
    instance,
    kinds,
    lane_view,
    orphaned,
    raise_limit,
    running,
    state,
    submitted,
    together,
)


@pytest.mark.proves("I9")
async def test_a_key_keeps_its_order_through_deaths_and_failures(store: SqlStore) -> None:
    run_ids = [await submitted(store)]
    run_ids += [await submitted(store, on_conflict=OnConflict.ENQUEUE) for _ in range(3)]
    holder = await instance(store)
    finished = []
    for number, run_id in enumerate(run_ids):
        one = await claimed_one(store, holder)
        if number % 2:
            await orphaned(store, run_id)
            holder = await instance(store)
            one = await claimed_one(store, holder)
        await store.apply(Fail(claim_of(one), an_error()))
        finished.append(one.run_id)
    assert finished == run_ids


@pytest.mark.proves("I5", "I11")
async def test_a_cancelling_run_keeps_its_slot_until_it_ends(store: SqlStore) -> None:
    await raise_limit(store, 1)
    holder = await instance(store)
    first = await running(store, "ann", by=holder)
    await store.apply(RequestCancel(run_id=first.run_id))
    second_id = await submitted(store, "bob")
    assert await claimed(store, a_claim(holder)) == ()
    await store.apply(ConfirmCancel(claim_of(first)))
    assert (await claimed_one(store, holder)).run_id == second_id


@pytest.mark.proves("I9")
async def test_neither_the_clock_nor_the_ids_decide_who_is_next(
    store: SqlStore, clock: FakeClock
) -> None:
    """It jumps back between two submissions, stands still between others; the ids go down."""
    run_ids = [await submitted(store, run_id="run-9")]
    for name, seconds in (("run-8", 0), ("run-7", -60), ("run-6", 0)):
        clock.advance(seconds)
        run_ids += [await submitted(store, run_id=name, on_conflict=OnConflict.ENQUEUE)]
    holder = await instance(store)
    for expected in run_ids:
        one = await claimed_one(store, holder)
        assert one.run_id == expected
        await store.apply(Complete(claim_of(one)))


@pytest.mark.proves("I9")
async def test_a_canceled_run_in_the_middle_leaves_the_others_their_places(
    store: SqlStore,
) -> None:
    run_ids = [await submitted(store)]
    run_ids += [await submitted(store, on_conflict=OnConflict.ENQUEUE) for _ in range(3)]
    await store.apply(RequestCancel(run_id=run_ids[2]))
    await store.apply(RequestCancel(run_id=run_ids[0]))
    holder = await instance(store)
    for expected in (run_ids[1], run_ids[3]):
        one = await claimed_one(store, holder)
        assert one.run_id == expected
        await store.apply(Complete(claim_of(one)))


@pytest.mark.proves("I9")
async def test_many_ends_of_a_key_at_once_hand_it_to_the_right_one(store: SqlStore) -> None:
    """In one batch: the head and the two behind it go, so the fourth is the heir."""
    run_ids = [await submitted(store)]
    run_ids += [await submitted(store, on_conflict=OnConflict.ENQUEUE) for _ in range(5)]
    cancels = [RequestCancel(run_id=run_ids[number]) for number in (1, 0, 2)]
    await together(store, *cancels, a_submit(on_conflict=OnConflict.ENQUEUE))
    assert (await state(store, run_ids[3])).head_key == "ann"
    assert [(await state(store, run_id)).waiting_key for run_id in run_ids[4:]] == ["ann"] * 2
    one, *_ = await claimed(store, a_claim(await instance(store), count=9))
    assert one.run_id == run_ids[3]


@pytest.mark.proves("I9")
async def test_keys_start_in_the_order_in_which_they_became_ready(store: SqlStore) -> None:
    """The second run of a key is ready when the first has ended, not when it was submitted."""
    holder = await instance(store)
    await raise_limit(store, 1)
    one = await running(store, "ann", by=holder)
    second_of_ann = await submitted(store, "ann", on_conflict=OnConflict.ENQUEUE)
    bob = await submitted(store, "bob")
    await store.apply(Complete(claim_of(one)))
    carl = await submitted(store, "carl")
    order = []
    for _ in range(3):
        one = await claimed_one(store, holder)
        order.append(one.run_id)
        await store.apply(Complete(claim_of(one)))
    assert order == [bob, second_of_ann, carl]


@pytest.mark.proves("I10")
async def test_a_key_with_a_thousand_queued_runs_does_not_starve_the_others(
    store: SqlStore,
) -> None:
    await raise_limit(store, 1)
    crowd = [a_submit("crowd", on_conflict=OnConflict.ENQUEUE) for _ in range(1000)]
    await together(store, *crowd)
    lonely = await submitted(store, "lonely")
    holder = await instance(store)
    first = await claimed_one(store, holder)
    assert first.run_id == crowd[0].run_id
    await store.apply(Complete(claim_of(first)))
    second = await claimed_one(store, holder)
    assert second.run_id == lonely
    await store.apply(Complete(claim_of(second)))
    assert (await claimed_one(store, holder)).run_id == crowd[1].run_id
    assert (await lane_view(store)).queued_count == 998


@pytest.mark.proves("R1.12")
async def test_a_newcomer_joins_the_queue_even_where_a_slot_is_free(
    store: SqlStore,
) -> None:
    holder = await instance(store)
    await raise_limit(store, 1)
    first = await running(store, "ann", by=holder)
    waiting = await submitted(store, "bob")
    await store.apply(Complete(claim_of(first)))
    assert (await lane_view(store)).held_count == 0
    # In one batch, as by two processes at the same moment.
    newcomer = a_submit(key="cat")
    _, claimed_now = await together(store, newcomer, a_claim(holder, count=1))
    assert [one.run_id for one in claimed_now] == [waiting]


@pytest.mark.proves("I9")
async def test_jobs_that_nobody_here_knows_neither_block_nor_vanish(store: SqlStore) -> None:
    strange = [await submitted(store, f"strange-{n}", job="strange") for n in range(5)]
    known = await submitted(store, "known", job="mirror")
    holder = await instance(store)
    assert [one.run_id for one in await claimed(store, a_claim(holder, count=9))] == [known]
    expert = await instance(store)
    learned = await claimed(store, a_claim(expert, jobs=["strange", "mirror"], count=9))
    assert [one.run_id for one in learned] == strange[:2]


@pytest.mark.proves("I9")
async def test_claims_for_different_jobs_at_once_each_get_their_own(store: SqlStore) -> None:
    """In one batch, what one claim passes over is still there for the next."""
    await raise_limit(store, 10)
    red = [await submitted(store, f"red-{n}", job="red") for n in range(2)]
    blue = [await submitted(store, f"blue-{n}", job="blue") for n in range(2)]
    holder = await instance(store)
    first, second, third = await together(
        store,
        a_claim(holder, jobs=["blue"], count=9),
        a_claim(holder, jobs=["red"], count=1),
        a_claim(holder, jobs=["red", "blue"], count=9),
    )
    assert [one.run_id for one in first] == blue
    assert [one.run_id for one in second] == red[:1]
    assert [one.run_id for one in third] == red[1:]


@pytest.mark.proves("I9")
async def test_claims_of_several_instances_at_once_leave_no_slot_empty(
    store: SqlStore,
) -> None:
    """In one batch, as if they had come one after the other."""
    await raise_limit(store, 10)
    run_ids = [await submitted(store, f"key-{number}") for number in range(6)]
    holders = [await instance(store) for _ in range(3)]
    answers = await together(store, *(a_claim(holder, count=2) for holder in holders))
    assert [one.run_id for answer in answers for one in answer] == run_ids


@pytest.mark.proves("I9")
async def test_who_ran_already_goes_before_who_never_started(store: SqlStore) -> None:
    await raise_limit(store, 1)
    holder = await instance(store)
    waiter = await running(store, "waiter", by=holder)
    assert await store.apply(ReleaseSlot(claim_of(waiter)))
    parked = await running(store, "parked", by=holder)
    assert await store.apply(Park(claim_of(parked)))
    orphan = await running(store, "orphan")
    await submitted(store, "new")
    await orphaned(store, orphan.run_id)
    assert await store.apply(Wake(parked.run_id))
    assert await store.apply(RequestSlot(claim_of(waiter))) is SlotResult.QUEUED
    order = []
    for _ in range(4):
        one = await claimed_one(store, holder)
        order.append(one.key)
        await store.apply(Complete(claim_of(one)))
    assert order == ["orphan", "parked", "waiter", "new"]


@pytest.mark.proves("I9")
async def test_a_slot_given_back_is_free_and_the_key_is_not(store: SqlStore) -> None:
    await raise_limit(store, 1)
    holder = await instance(store)
    waiter = await running(store, "waiter", by=holder)
    await submitted(store, "waiter", on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(ReleaseSlot(claim_of(waiter)))
    assert await store.apply(ReleaseSlot(claim_of(waiter)))  # Said twice, it is done once.
    other = await submitted(store, "other")
    assert [one.run_id for one in await claimed(store, a_claim(holder, count=9))] == [other]
    run = await state(store, waiter.run_id)
    assert (run.slot, run.token, run.head_key) == (None, waiter.token, "waiter")
    assert (await kinds(store, waiter.run_id)).count(EventType.WAITING) == 1


@pytest.mark.proves("I9")
async def test_a_slot_wanted_again_comes_to_the_same_claim(store: SqlStore) -> None:
    holder, stranger = await instance(store), await instance(store)
    waiter = await running(store, by=holder)
    claim = claim_of(waiter)
    assert await store.apply(RequestSlot(claim)) is SlotResult.HELD  # It has one.
    await store.apply(ReleaseSlot(claim))
    assert await claimed(store, a_claim(holder)) == ()  # It has not said that its wait is over.
    assert await store.apply(RequestSlot(claim)) is SlotResult.QUEUED
    assert await store.apply(RequestSlot(claim)) is SlotResult.QUEUED  # Still.
    assert await claimed(store, a_claim(stranger)) == ()
    again = await claimed_one(store, holder)
    assert (again.run_id, again.token, again.generation) == (*claim, 1)
    assert again.is_resumed
    assert (await kinds(store, claim.run_id))[2:] == [
        EventType.WAITING,
        EventType.WOKEN,
        EventType.RESUMED,
    ]
    assert (await lane_view(store)).held_count == 1


@pytest.mark.proves("I5")
async def test_who_wants_a_slot_again_waits_for_a_free_one(store: SqlStore) -> None:
    await raise_limit(store, 1)
    holder = await instance(store)
    waiter = await running(store, "waiter", by=holder)
    await store.apply(ReleaseSlot(claim_of(waiter)))
    other = await running(store, "other", by=holder)
    await store.apply(RequestSlot(claim_of(waiter)))
    assert await claimed(store, a_claim(holder)) == ()
    # In one batch the end frees the slot, and the claim gives it to the one who waited.
    await submitted(store, "new")
    _, (one,) = await together(store, Complete(claim_of(other)), a_claim(holder, count=9))
    assert one.run_id == waiter.run_id


@pytest.mark.proves("I9")
async def test_what_becomes_ready_in_the_batch_can_be_claimed_in_it(store: SqlStore) -> None:
    holder = await instance(store)
    waiter = await running(store, "waiter", by=holder)
    parked = await running(store, "parked", by=holder)
    await store.apply(ReleaseSlot(claim_of(waiter)))
    await store.apply(Park(claim_of(parked)))
    *_, ones = await together(
        store,
        a_submit("new", params={"n": 1}),
        Wake(parked.run_id),
        RequestSlot(claim_of(waiter)),
        a_claim(holder, count=9),
    )
    assert [one.key for one in ones] == ["parked", "waiter", "new"]
    assert [one.params for one in ones] == ["{}", "{}", '{"n":1}']
