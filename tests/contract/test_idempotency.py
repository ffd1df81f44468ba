"""The same idempotency key gives the same run, at every retry (I6)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.idempotency import IdempotencyMismatch, Repeated
from headway.core.command.run.inbox import MessageNotAccepted, Posted
from headway.core.command.run.report import SetWindow
from headway.core.command.run.settle import Complete
from headway.core.command.run.submit import Accepted, Busy, Joined, Steered
from headway.core.run.admission import OnConflict
from headway.core.run.run import Recovery
from headway.core.run.window import Delivery, Window
from headway.testing import FakeClock, a_message, a_submit, claim_of
from tests.contract.backends import read_all
from tests.contract.scenes import claim_run, register_instance, start_run, submit_run


@pytest.mark.proves("I6")
async def test_repeated_request_returns_the_same_run_and_changes_nothing(store: SqlStore) -> None:
    run_id = await submit_run(store, idempotency_key="once")
    before = await read_all(store)
    assert await store.apply(a_submit(idempotency_key="once")) == Repeated(run_id)
    assert await read_all(store) == before


@pytest.mark.proves("I6")
@pytest.mark.parametrize(
    "filled_in",
    [
        {"params": {"page": 2}},
        {"lane": "cron"},
        {"timeout_s": 5.0},
        {"queue_timeout_s": 5.0},
        {"recovery": Recovery.FAIL},
        {"key": "bob"},
    ],
    ids=lambda filled_in: next(iter(filled_in)),
)
async def test_repeated_request_matches_even_if_defaults_have_changed(
    store: SqlStore, filled_in: dict[str, Any]
) -> None:
    """The program or the key's saved row may have changed when the request is repeated."""
    run_id = await submit_run(store, idempotency_key="once", params={"page": 1})
    repeat = a_submit(**{"idempotency_key": "once", **filled_in})
    assert await store.apply(repeat) == Repeated(run_id)
    assert await store.apply(replace(repeat, row_revision=5)) == Repeated(run_id)


@pytest.mark.proves("I6")
async def test_repeated_request_returns_the_same_run_long_after_it_has_ended(
    store: SqlStore, clock: FakeClock
) -> None:
    run_id = await submit_run(store, idempotency_key="once")
    await store.apply(Complete(claim_of(await claim_run(store, await register_instance(store)))))
    clock.advance(3600)
    assert await store.apply(a_submit(idempotency_key="once")) == Repeated(run_id)
    await submit_run(store)
    assert await store.apply(a_submit(idempotency_key="once")) == Repeated(run_id)


@pytest.mark.proves("I6")
async def test_another_request_under_the_same_idempotency_key_is_refused(store: SqlStore) -> None:
    run_id = await submit_run(store, idempotency_key="once", fingerprint="one")
    before = await read_all(store)
    other = a_submit(idempotency_key="once", fingerprint="another")
    assert await store.apply(other) == IdempotencyMismatch(run_id)
    assert await read_all(store) == before


@pytest.mark.proves("I6")
async def test_one_of_many_simultaneous_repeats_is_accepted(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Each has a key of its own, so that only the idempotency key connects them."""
    stores = (store, another_store)
    for number in range(10):
        options: dict[str, Any] = {"key": f"key-{number}", "idempotency_key": f"once-{number}"}
        answers = await asyncio.gather(
            *(stores[n % 2].apply(a_submit(**options)) for n in range(20))
        )
        (accepted,) = [answer for answer in answers if isinstance(answer, Accepted)]
        assert [answer for answer in answers if answer != accepted] == [
            Repeated(accepted.run_id)
        ] * 19


@pytest.mark.proves("I6")
async def test_idempotency_key_of_a_refused_request_is_not_recorded(store: SqlStore) -> None:
    """The refusal created no run, so the same request may succeed later."""
    active = await submit_run(store)
    assert await store.apply(a_submit(idempotency_key="once")) == Busy(active)
    await store.apply(Complete(claim_of(await claim_run(store, await register_instance(store)))))
    assert isinstance(await store.apply(a_submit(idempotency_key="once")), Accepted)


@pytest.mark.proves("I6")
async def test_repeated_steering_message_is_stored_once(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(SetWindow(claim_of(run), Window.STREAMING))
    options: dict[str, Any] = {"on_conflict": OnConflict.STEER, "idempotency_key": "once"}
    assert isinstance(await store.apply(a_submit(**options)), Steered)
    assert await store.apply(a_submit(**options)) == Repeated(run.run_id)
    assert len(await store.runs.inbox(run.run_id)) == 1


@pytest.mark.proves("I6")
async def test_repeated_join_returns_the_run_that_was_joined(store: SqlStore) -> None:
    run = await start_run(store)
    options: dict[str, Any] = {"on_conflict": OnConflict.JOIN, "idempotency_key": "once"}
    assert await store.apply(a_submit(**options)) == Joined(run.run_id)
    await store.apply(Complete(claim_of(run)))
    assert await store.apply(a_submit(**options)) == Repeated(run.run_id)


@pytest.mark.proves("I6")
async def test_repeated_message_is_posted_once(store: SqlStore) -> None:
    """This holds if many callers post it at once, and also after the run has ended."""
    run = await start_run(store)
    message = a_message(run.run_id, "hello", idempotency_key="once")
    answers = await asyncio.gather(*(store.apply(message) for _ in range(10)))
    assert sum(isinstance(answer, Posted) for answer in answers) == 1
    assert answers.count(Repeated(run.run_id)) == 9
    assert len(await store.runs.inbox(run.run_id)) == 1
    await store.apply(Complete(claim_of(run)))
    assert await store.apply(message) == Repeated(run.run_id)


@pytest.mark.proves("I6")
async def test_another_message_or_run_under_the_same_idempotency_key_is_refused(
    store: SqlStore,
) -> None:
    run, other = await start_run(store, "ann"), await submit_run(store, "bob")
    await store.apply(a_message(run.run_id, "hello", idempotency_key="once"))
    before = await read_all(store)
    for message in (
        a_message(run.run_id, "goodbye", idempotency_key="once"),
        a_message(other, "hello", idempotency_key="once"),
        a_submit("eve", idempotency_key="once"),
    ):
        assert await store.apply(message) == IdempotencyMismatch(run.run_id)
    assert await read_all(store) == before


@pytest.mark.proves("I6")
async def test_refused_message_may_be_sent_again(store: SqlStore) -> None:
    run = await start_run(store)
    message = a_message(run.run_id, "hello", delivery=Delivery.NOW, idempotency_key="once")
    await store.apply(SetWindow(claim_of(run), Window.COMPACTING))
    assert isinstance(await store.apply(message), MessageNotAccepted)
    await store.apply(SetWindow(claim_of(run), Window.STREAMING))
    assert isinstance(await store.apply(message), Posted)
