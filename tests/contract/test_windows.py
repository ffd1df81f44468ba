"""When a run can be spoken to: its window, decided where its claim is (R4.8, R4.11, R4.15)."""

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import CancelAnswer, ConfirmDelivery, RequestCancel
from headway.core.command.run.inbox import NotTaken, Posted, PostToInbox
from headway.core.command.run.report import SetWindow
from headway.core.run.events import EventType
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.core.run.window import Delivery, Refusal, Window
from headway.testing import claim_of, document
from tests.contract.scenes import claimed_one, events, instance, orphaned, running, state

TAKEN = None
NOW, LATER = Delivery.NOW, Delivery.WHEN_LISTENING
ANSWERS = [
    (Window.NONE, LATER, TAKEN),
    (Window.NONE, NOW, NotTaken(Refusal.NOT_STREAMING, can_wait=True)),
    (Window.STREAMING, LATER, TAKEN),
    (Window.STREAMING, NOW, TAKEN),
    (Window.COMPACTING, LATER, TAKEN),
    (Window.COMPACTING, NOW, NotTaken(Refusal.COMPACTING, can_wait=True)),
    (Window.CLOSED, LATER, NotTaken(Refusal.NOT_STREAMING)),
    (Window.CLOSED, NOW, NotTaken(Refusal.NOT_STREAMING)),
]


async def in_window(store: SqlStore, window: Window) -> Claim:
    claim = claim_of(await running(store))
    assert await store.apply(SetWindow(claim, window)) is True
    return claim


@pytest.mark.proves("R4.11", "R4.8", "I26")
@pytest.mark.parametrize(("window", "delivery", "refusal"), ANSWERS)
async def test_the_window_of_a_run_decides_whether_a_message_is_accepted(
    store: SqlStore, *, window: Window, delivery: Delivery, refusal: NotTaken | None
) -> None:
    claim = await in_window(store, window)
    answer = await store.apply(
        PostToInbox(run_id=claim.run_id, payload=document("hi"), delivery=delivery)
    )
    if refusal is None:
        assert isinstance(answer, Posted)
    else:
        assert answer == refusal
        assert await store.runs.inbox(claim.run_id) == []


@pytest.mark.parametrize("window", [Window.NONE, Window.STREAMING, Window.COMPACTING])
async def test_r4_8_a_cancel_is_taken_until_the_loop_ends(store: SqlStore, window: Window) -> None:
    claim = await in_window(store, window)
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelAnswer.REQUESTED


async def test_r4_8_after_the_loop_a_cancel_is_too_late_and_the_key_is_still_held(
    store: SqlStore,
) -> None:
    claim = await in_window(store, Window.CLOSED)
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelAnswer.TOO_LATE
    run = await state(store, claim.run_id)
    assert (run.status, run.head_key) == (RunStatus.RUNNING, run.key)


async def test_r4_15_the_window_is_marked_under_the_claim_and_ends_with_it(
    store: SqlStore,
) -> None:
    claim = await in_window(store, Window.STREAMING)
    await orphaned(store, claim.run_id)
    assert (await state(store, claim.run_id)).is_interactive == Window.NONE
    again = claim_of(await claimed_one(store, await instance(store)))
    assert await store.apply(SetWindow(claim, Window.STREAMING)) is False
    assert (await state(store, claim.run_id)).is_interactive == Window.NONE
    assert await store.apply(SetWindow(again, Window.STREAMING)) is True


async def test_r4_10_that_a_cancel_has_arrived_can_be_seen(store: SqlStore) -> None:
    claim = claim_of(await running(store))
    assert await store.apply(ConfirmDelivery(claim)) is False  # Nobody has asked for it.
    await store.apply(RequestCancel(run_id=claim.run_id))
    assert await store.apply(ConfirmDelivery(claim._replace(token="old"))) is False
    assert await store.apply(ConfirmDelivery(claim)) is True
    told = [event.type for event in await events(store, claim.run_id)]
    assert told[-2:] == [EventType.STATE_CHANGED, EventType.CANCEL_DELIVERED]
