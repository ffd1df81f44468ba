"""The same idempotency key, the same run, whatever the retries (I6)."""

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
from tests.contract.scenes import claimed_one, instance, running, submitted


@pytest.mark.proves("I6")
async def test_a_repeat_gives_the_same_run_and_changes_nothing(store: SqlStore) -> None:
    run_id = await submitted(store, idempotency_key="once")
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
async def test_what_was_filled_in_for_the_caller_is_no_part_of_the_request(
    store: SqlStore, filled_in: dict[str, Any]
) -> None:
    """The program or the key's saved row may be another when the request is repeated."""
    run_id = await submitted(store, idempotency_key="once", params={"page": 1})
    repeat = a_submit(**{"idempotency_key": "once", **filled_in})
    assert await store.apply(repeat) == Repeated(run_id)
    assert await store.apply(replace(repeat, row_revision=5)) == Repeated(run_id)


@pytest.mark.proves("I6")
async def test_a_repeat_gives_the_same_run_when_that_has_long_ended(
    store: SqlStore, clock: FakeClock
) -> None:
    run_id = await submitted(store, idempotency_key="once")
    await store.apply(Complete(claim_of(await claimed_one(store, await instance(store)))))
    clock.advance(3600)
    assert await store.apply(a_submit(idempotency_key="once")) == Repeated(run_id)
    await submitted(store)
    assert await store.apply(a_submit(idempotency_key="once")) == Repeated(run_id)


@pytest.mark.proves("I6")
async def test_another_request_under_the_same_key_is_refused(store: SqlStore) -> None:
    run_id = await submitted(store, idempotency_key="once", fingerprint="one")
    before = await read_all(store)
    other = a_submit(idempotency_key="once", fingerprint="another")
    assert await store.apply(other) == IdempotencyMismatch(run_id)
    assert await read_all(store) == before


@pytest.mark.proves("I6")
async def test_of_many_repeats_at_once_one_is_accepted(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Each under a key of its own, so that only the idempotency key tells them to be one."""
    stores = (store, another_store)
    for number in range(10):
        wanted: dict[str, Any] = {"key": f"key-{number}", "idempotency_key": f"once-{number}"}
        answers = await asyncio.gather(
            *(stores[n % 2].apply(a_submit(**wanted)) for n in range(20))
        )
        (accepted,) = [answer for answer in answers if isinstance(answer, Accepted)]
        assert [answer for answer in answers if answer != accepted] == [
            Repeated(accepted.run_id)
        ] * 19


@pytest.mark.proves("I6")
async def test_a_refusal_is_not_remembered(store: SqlStore) -> None:
    """Nothing came of it, so the same request may succeed later."""
    active = await submitted(store)
    assert await store.apply(a_submit(idempotency_key="once")) == Busy(active)
    await store.apply(Complete(claim_of(await claimed_one(store, await instance(store)))))
    assert isinstance(await store.apply(a_submit(idempotency_key="once")), Accepted)


@pytest.mark.proves("I6")
async def test_a_repeated_steer_is_injected_once(store: SqlStore) -> None:
    one = await running(store)
    await store.apply(SetWindow(claim_of(one), Window.STREAMING))
    wanted: dict[str, Any] = {"on_conflict": OnConflict.STEER, "idempotency_key": "once"}
    assert isinstance(await store.apply(a_submit(**wanted)), Steered)
    assert await store.apply(a_submit(**wanted)) == Repeated(one.run_id)
    assert len(await store.runs.inbox(one.run_id)) == 1


@pytest.mark.proves("I6")
async def test_a_repeated_join_gives_the_run_that_was_joined(store: SqlStore) -> None:
    one = await running(store)
    wanted: dict[str, Any] = {"on_conflict": OnConflict.JOIN, "idempotency_key": "once"}
    assert await store.apply(a_submit(**wanted)) == Joined(one.run_id)
    await store.apply(Complete(claim_of(one)))
    assert await store.apply(a_submit(**wanted)) == Repeated(one.run_id)


@pytest.mark.proves("I6")
async def test_a_repeated_message_is_posted_once(store: SqlStore) -> None:
    """However many ask for it at once, and although the run is over meanwhile."""
    one = await running(store)
    message = a_message(one.run_id, "hello", idempotency_key="once")
    answers = await asyncio.gather(*(store.apply(message) for _ in range(10)))
    assert sum(isinstance(answer, Posted) for answer in answers) == 1
    assert answers.count(Repeated(one.run_id)) == 9
    assert len(await store.runs.inbox(one.run_id)) == 1
    await store.apply(Complete(claim_of(one)))
    assert await store.apply(message) == Repeated(one.run_id)


@pytest.mark.proves("I6")
async def test_another_message_or_run_under_the_same_key_is_refused(store: SqlStore) -> None:
    one, other = await running(store, "ann"), await submitted(store, "bob")
    await store.apply(a_message(one.run_id, "hello", idempotency_key="once"))
    before = await read_all(store)
    for wanted in (
        a_message(one.run_id, "goodbye", idempotency_key="once"),
        a_message(other, "hello", idempotency_key="once"),
        a_submit("eve", idempotency_key="once"),
    ):
        assert await store.apply(wanted) == IdempotencyMismatch(one.run_id)
    assert await read_all(store) == before


@pytest.mark.proves("I6")
async def test_a_message_that_was_refused_may_be_sent_again(store: SqlStore) -> None:
    one = await running(store)
    message = a_message(one.run_id, "hello", delivery=Delivery.NOW, idempotency_key="once")
    await store.apply(SetWindow(claim_of(one), Window.COMPACTING))
    assert isinstance(await store.apply(message), MessageNotAccepted)
    await store.apply(SetWindow(claim_of(one), Window.STREAMING))
    assert isinstance(await store.apply(message), Posted)
