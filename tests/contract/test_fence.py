"""After a newer claim, the word of an older one changes nothing (I1, I2)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.instance import HandOver
from headway.core.command.protocol import Command
from headway.core.command.run.cancel import ForceCancel, RequestCancel
from headway.core.command.run.expire import Expire
from headway.core.command.run.inbox import ConsumeInbox
from headway.core.command.run.report import (
    AppendEvents,
    JobEvent,
    SaveCheckpoint,
    SaveProgress,
    SetWindow,
)
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail, Settled, TooLate
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot, SlotResult
from headway.core.ids import Instant
from headway.core.run.run import NO_TOKEN, Claim
from headway.core.run.status import RunStatus
from headway.core.run.window import Window
from headway.testing import FakeClock, a_message, an_error, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    claimed_one,
    instance,
    moves,
    orphaned,
    record,
    running,
    status,
    submitted,
    together,
)

TOO_LATE: Final = "too late"
# Everything that an executor may say, and the answer when it may not.
SAYINGS: Final[Mapping[str, tuple[Callable[[Claim], Command[Any]], Any]]] = {
    "complete": (lambda claim: Complete(claim, document("stale")), TOO_LATE),
    "fail": (lambda claim: Fail(claim, an_error("stale")), TOO_LATE),
    "confirm_cancel": (ConfirmCancel, TOO_LATE),
    "progress": (lambda claim: SaveProgress(claim, document({"n": 1})), False),
    "checkpoint": (lambda claim: SaveCheckpoint(claim, document({"n": 1})), False),
    "event": (lambda claim: AppendEvents(claim, (JobEvent("run_log", document("stale")),)), False),
    "interactive": (lambda claim: SetWindow(claim, Window.STREAMING), False),
    "deaf": (lambda claim: SetWindow(claim, Window.NONE), False),
    "give_slot_back": (ReleaseSlot, False),
    "want_slot": (RequestSlot, SlotResult.REFUSED),
    "park": (Park, False),
    "park_until": (lambda claim: Park(claim, Instant(1)), False),
    "hand_over": (lambda claim: HandOver(claim, has_progressed=False), False),
    "consume": (ConsumeInbox, None),
}


async def assert_all_refused(store: SqlStore, claim: Claim, *, writer: SqlStore) -> None:
    """Whatever it says is refused with the truth, and nothing changes: no row, no event."""
    before = await read_all(store)
    now = TooLate(await status(store, claim.run_id))
    for name, (say, refusal) in SAYINGS.items():
        answer = await writer.apply(say(claim))
        assert (name, answer) == (name, now if refusal is TOO_LATE else refusal)
        assert await read_all(store) == before, name


async def superseded(store: SqlStore) -> tuple[Claim, Claim]:
    """The claim of an executor that was declared dead, and that of its successor."""
    old = claim_of(await running(store))
    await store.apply(a_message(old.run_id))
    await orphaned(store, old.run_id)
    new = await claimed_one(store, await instance(store))
    assert (new.run_id, new.generation) == (old.run_id, 2)
    return old, claim_of(new)


@pytest.mark.proves("I2")
async def test_an_older_claim_is_refused_and_changes_nothing(store: SqlStore) -> None:
    old, new = await superseded(store)
    await assert_all_refused(store, old, writer=store)
    assert await store.apply(Complete(new)) == Settled(RunStatus.SUCCEEDED)


@pytest.mark.proves("I2")
async def test_an_older_claim_is_refused_from_another_process_too(
    store: SqlStore, another_store: SqlStore
) -> None:
    old, _ = await superseded(store)
    await assert_all_refused(store, old, writer=another_store)


@pytest.mark.proves("I2")
async def test_all_that_an_older_claim_says_at_once_is_refused(store: SqlStore) -> None:
    """In one batch with what the newer claim says, which all counts."""
    old, new = await superseded(store)
    stale = [say(old) for say, _ in SAYINGS.values()]
    good = SaveProgress(new, document({"n": 2}))
    answers = await together(store, *stale, good, *stale)
    now = TooLate(RunStatus.RUNNING)
    refusals = [now if each is TOO_LATE else each for _, each in SAYINGS.values()]
    assert answers == [*refusals, True, *refusals]
    found = await record(store, new.run_id)
    assert (found.progress, found.checkpoint, found.run.unread_count) == ('{"n":2}', None, 1)


@pytest.mark.proves("I2")
async def test_an_orphan_belongs_to_nobody_until_it_is_claimed_again(store: SqlStore) -> None:
    old = claim_of(await running(store))
    await orphaned(store, old.run_id)
    await assert_all_refused(store, old, writer=store)
    await assert_all_refused(store, Claim(old.run_id, NO_TOKEN), writer=store)


@pytest.mark.proves("I2")
async def test_the_empty_token_is_nobodys(store: SqlStore) -> None:
    """A queued run has no claim; the absence of one is none either."""
    await assert_all_refused(store, Claim(await submitted(store), NO_TOKEN), writer=store)


@pytest.mark.proves("I2")
@pytest.mark.parametrize("end", ["completed", "expired", "forced", "parked"])
async def test_a_claim_that_was_given_up_or_taken_away_is_void(
    store: SqlStore, clock: FakeClock, end: str
) -> None:
    claim = claim_of(await running(store, timeout_s=10))
    if end == "forced":
        await store.apply(RequestCancel(run_id=claim.run_id, grace_s=1))
    clock.advance(10)
    void: Mapping[str, Command[Any]] = {
        "completed": Complete(claim),
        "expired": Expire(claim.run_id),
        "forced": ForceCancel(claim.run_id),
        "parked": Park(claim),
    }
    assert await store.apply(void[end])
    await assert_all_refused(store, claim, writer=store)


@pytest.mark.proves("I1")
async def test_a_result_is_accepted_once_and_from_the_claim_in_force(
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
    assert (await record(store, old.run_id)).result == '"new"'
    assert await store.apply(Complete(new, document("again"))) == TooLate(RunStatus.SUCCEEDED)
    ends = [after for _, after in await moves(store, old.run_id) if after == "succeeded"]
    assert ends == ["succeeded"]


@pytest.mark.proves("I2")
async def test_every_claim_has_a_token_of_its_own(store: SqlStore) -> None:
    tokens = set()
    run_id = await submitted(store)
    for generation in (1, 2):
        one = await claimed_one(store, await instance(store))
        assert one.generation == generation
        tokens.add(one.token)
        await orphaned(store, run_id)
    assert len(tokens) == 2
