"""Whether a run accepts messages: its window, decided under its claim (R4.8, R4.11, R4.15)."""

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import CancelResult, ConfirmCancelDelivery, RequestCancel
from headway.core.command.run.inbox import MessageNotAccepted, Posted, PostToInbox
from headway.core.command.run.report import SetWindow
from headway.core.run.events import EventType
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.core.run.window import Delivery, Refusal, Window
from headway.testing import claim_of, document
from tests.contract.scenes import (
    claim_run,
    orphan_run,
    read_events,
    read_run,
    register_instance,
    start_run,
)

ACCEPTED = None
NOW, LATER = Delivery.NOW, Delivery.WHEN_LISTENING
ANSWERS = [
    (Window.NONE, LATER, ACCEPTED),
    (Window.NONE, NOW, MessageNotAccepted(Refusal.NOT_STREAMING, can_wait=True)),
    (Window.STREAMING, LATER, ACCEPTED),
    (Window.STREAMING, NOW, ACCEPTED),
    (Window.COMPACTING, LATER, ACCEPTED),
    (Window.COMPACTING, NOW, MessageNotAccepted(Refusal.COMPACTING, can_wait=True)),
    (Window.CLOSED, LATER, MessageNotAccepted(Refusal.NOT_STREAMING)),
    (Window.CLOSED, NOW, MessageNotAccepted(Refusal.NOT_STREAMING)),
]


async def start_in_window(store: SqlStore, window: Window) -> Claim:
    claim = claim_of(await start_run(store))
    assert await store.apply(SetWindow(claim, window)) is True
    return claim


@pytest.mark.proves("R4.11", "R4.8", "I26")
@pytest.mark.parametrize(("window", "delivery", "refusal"), ANSWERS)
async def test_window_of_a_run_decides_whether_a_message_is_accepted(
    store: SqlStore, *, window: Window, delivery: Delivery, refusal: MessageNotAccepted | None
) -> None:
    claim = await start_in_window(store, window)
    answer = await store.apply(
        PostToInbox(run_id=claim.run_id, payload=document("hi"), delivery=delivery)
    )
    if refusal is None:
        assert isinstance(answer, Posted)
    else:
        assert answer == refusal
        assert await store.runs.inbox(claim.run_id) == []


@pytest.mark.proves("R4.8")
@pytest.mark.parametrize("window", [Window.NONE, Window.STREAMING, Window.COMPACTING])
async def test_cancel_is_accepted_until_the_loop_ends(store: SqlStore, window: Window) -> None:
    claim = await start_in_window(store, window)
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelResult.REQUESTED


@pytest.mark.proves("R4.8")
async def test_cancel_after_the_loop_ended_is_too_late_and_the_run_keeps_its_key(
    store: SqlStore,
) -> None:
    claim = await start_in_window(store, Window.CLOSED)
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelResult.TOO_LATE
    run = await read_run(store, claim.run_id)
    assert (run.status, run.head_key) == (RunStatus.RUNNING, run.key)


@pytest.mark.proves("R4.15")
async def test_window_is_set_under_a_claim_and_reset_when_the_claim_ends(
    store: SqlStore,
) -> None:
    claim = await start_in_window(store, Window.STREAMING)
    await orphan_run(store, claim.run_id)
    assert (await read_run(store, claim.run_id)).window == Window.NONE
    again = claim_of(await claim_run(store, await register_instance(store)))
    assert await store.apply(SetWindow(claim, Window.STREAMING)) is False
    assert (await read_run(store, claim.run_id)).window == Window.NONE
    assert await store.apply(SetWindow(again, Window.STREAMING)) is True


@pytest.mark.proves("R4.10")
async def test_delivery_of_a_cancel_has_an_event(store: SqlStore) -> None:
    claim = claim_of(await start_run(store))
    assert await store.apply(ConfirmCancelDelivery(claim)) is False  # No cancel was requested.
    await store.apply(RequestCancel(run_id=claim.run_id))
    assert await store.apply(ConfirmCancelDelivery(claim._replace(token="old"))) is False
    assert await store.apply(ConfirmCancelDelivery(claim)) is True
    results = [event.type for event in await read_events(store, claim.run_id)]
    assert results[-2:] == [EventType.STATE_CHANGED, EventType.CANCEL_DELIVERED]
