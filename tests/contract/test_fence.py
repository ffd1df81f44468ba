"""After a newer claim, the word of an older one changes nothing (I1, I2)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from headway.adapters.sql.store import SqlStore
from headway.core.command.cancel import ForceCancel, RequestCancel
from headway.core.command.command import Command
from headway.core.command.expire import Expire
from headway.core.command.inbox import ConsumeInbox
from headway.core.command.report import AppendEvent, SaveCheckpoint, SaveProgress, SetInteractive
from headway.core.command.settle import Complete, ConfirmCancel, Fail, Settled, TooLate
from headway.core.command.wait import GiveSlotBack, Park, WantSlot
from headway.core.ids import Instant
from headway.core.run.run import NO_TOKEN, Claim
from headway.core.run.status import RunStatus
from headway.testing import FakeClock, a_message, an_error, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    claimed_one,
    instance,
    moves,
    orphaned,
    running,
    status,
    submitted,
)

# Everything that an executor may say, and the answer when it may not.
SAYINGS: Final[Mapping[str, tuple[Callable[[Claim], Command[Any]], Any]]] = {
    "complete": (lambda claim: Complete(claim, document("stale")), TooLate(RunStatus.RUNNING)),
    "fail": (lambda claim: Fail(claim, an_error("stale")), TooLate(RunStatus.RUNNING)),
    "confirm_cancel": (ConfirmCancel, TooLate(RunStatus.RUNNING)),
    "progress": (lambda claim: SaveProgress(claim, document({"n": 1})), False),
    "checkpoint": (lambda claim: SaveCheckpoint(claim, document({"n": 1})), False),
    "event": (lambda claim: AppendEvent(claim, "run_log", document("stale")), False),
    "interactive": (lambda claim: SetInteractive(claim, is_interactive=True), False),
    "deaf": (lambda claim: SetInteractive(claim, is_interactive=False), False),
    "give_slot_back": (GiveSlotBack, False),
    "want_slot": (WantSlot, False),
    "park": (Park, False),
    "park_until": (lambda claim: Park(claim, Instant(1)), False),
    "consume": (ConsumeInbox, None),
}
saying = pytest.mark.parametrize(
    ("say", "refusal"), [pytest.param(*each, id=name) for name, each in SAYINGS.items()]
)


async def superseded(store: SqlStore) -> tuple[Claim, Claim]:
    """The claim of an executor that was declared dead, and that of its successor."""
    old = claim_of(await running(store))
    await store.apply(a_message(old.run_id))
    await orphaned(store, old.run_id)
    new = await claimed_one(store, await instance(store))
    assert (new.run_id, new.generation) == (old.run_id, 2)
    return old, claim_of(new)


@saying
async def test_i2_an_older_claim_is_refused_and_changes_nothing(
    store: SqlStore, say: Callable[[Claim], Command[Any]], refusal: Any
) -> None:
    old, new = await superseded(store)
    before = await read_all(store)
    assert await store.apply(say(old)) == refusal
    assert await read_all(store) == before
    assert await store.apply(Complete(new)) == Settled(RunStatus.SUCCEEDED)


@saying
async def test_i2_an_older_claim_is_refused_from_another_process_too(
    store: SqlStore,
    another_store: SqlStore,
    say: Callable[[Claim], Command[Any]],
    refusal: Any,
) -> None:
    old, _ = await superseded(store)
    before = await read_all(store)
    assert await another_store.apply(say(old)) == refusal
    assert await read_all(store) == before


@saying
async def test_i2_an_orphan_belongs_to_nobody_until_it_is_claimed_again(
    store: SqlStore, say: Callable[[Claim], Command[Any]], refusal: Any
) -> None:
    old = claim_of(await running(store))
    await orphaned(store, old.run_id)
    before = await read_all(store)
    assert await store.apply(say(old)) == refusal
    assert await store.apply(say(Claim(old.run_id, NO_TOKEN))) == refusal
    assert await read_all(store) == before


@saying
async def test_i2_the_empty_token_is_nobodys(
    store: SqlStore, say: Callable[[Claim], Command[Any]], refusal: Any
) -> None:
    """A queued run has no claim; the absence of one is none either."""
    run_id = await submitted(store)
    before = await read_all(store)
    answer = await store.apply(say(Claim(run_id, NO_TOKEN)))
    assert answer == (TooLate(RunStatus.QUEUED) if isinstance(refusal, TooLate) else refusal)
    assert await read_all(store) == before


@pytest.mark.parametrize("end", ["expired", "forced", "parked"])
@saying
async def test_i2_a_claim_that_was_taken_away_is_void(
    store: SqlStore,
    clock: FakeClock,
    end: str,
    say: Callable[[Claim], Command[Any]],
    refusal: Any,
) -> None:
    claim = claim_of(await running(store, timeout_s=10))
    if end == "forced":
        await store.apply(RequestCancel(run_id=claim.run_id, grace_s=1))
    clock.advance(10)
    if end == "expired":
        assert await store.apply(Expire(claim.run_id))
    elif end == "forced":
        assert await store.apply(ForceCancel(claim.run_id))
    else:
        assert await store.apply(Park(claim))
    before = await read_all(store)
    answer = await store.apply(say(claim))
    if isinstance(refusal, TooLate):
        assert answer == TooLate(await status(store, claim.run_id))
    else:
        assert answer == refusal
    assert await read_all(store) == before


async def test_i1_a_result_is_accepted_once_and_from_the_claim_in_force(
    store: SqlStore, another_store: SqlStore
) -> None:
    """The zombie and its successor finish at the same instant."""
    old, new = await superseded(store)
    late, good = await asyncio.gather(
        another_store.apply(Complete(old, document("old"))),
        store.apply(Complete(new, document("new"))),
    )
    assert isinstance(late, TooLate)
    assert good == Settled(RunStatus.SUCCEEDED)
    found = await store.runs.run(old.run_id)
    assert found is not None
    assert found.result == '"new"'
    assert await store.apply(Complete(new, document("again"))) == TooLate(RunStatus.SUCCEEDED)
    ends = [after for _, after in await moves(store, old.run_id) if after == "succeeded"]
    assert ends == ["succeeded"]


async def test_i2_every_claim_has_a_token_of_its_own(store: SqlStore) -> None:
    tokens = set()
    run_id = await submitted(store)
    for generation in (1, 2):
        one = await claimed_one(store, await instance(store))
        assert one.generation == generation
        tokens.add(one.token)
        await orphaned(store, run_id)
    assert len(tokens) == 2
