"""After a newer claim, commands of an older claim change nothing (I1, I2)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.instance import HandOver
from headway.core.command.protocol import Command
from headway.core.command.run.cancel import ForceCancel, RequestCancel
from headway.core.command.run.end_run import Expire
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
    apply_in_one_batch,
    claim_run,
    orphan_run,
    read_record,
    read_status,
    read_transitions,
    register_instance,
    start_run,
    submit_run,
)

TOO_LATE: Final = "too late"
# Every command of an executor, and the answer when its claim is stale.
HOLDER_COMMANDS: Final[Mapping[str, tuple[Callable[[Claim], Command[Any]], Any]]] = {
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
    """Check that every command is refused with the current status and changes no row."""
    before = await read_all(store)
    now = TooLate(await read_status(store, claim.run_id))
    for name, (say, refusal) in HOLDER_COMMANDS.items():
        answer = await writer.apply(say(claim))
        assert (name, answer) == (name, now if refusal is TOO_LATE else refusal)
        assert await read_all(store) == before, name


async def supersede(store: SqlStore) -> tuple[Claim, Claim]:
    """Return the claim of an executor that was declared dead, and that of its successor."""
    old = claim_of(await start_run(store))
    await store.apply(a_message(old.run_id))
    await orphan_run(store, old.run_id)
    new = await claim_run(store, await register_instance(store))
    assert (new.run_id, new.generation) == (old.run_id, 2)
    return old, claim_of(new)


@pytest.mark.proves("I2")
async def test_older_claim_is_refused_and_changes_nothing(store: SqlStore) -> None:
    old, new = await supersede(store)
    await assert_all_refused(store, old, writer=store)
    assert await store.apply(Complete(new)) == Settled(RunStatus.SUCCEEDED)


@pytest.mark.proves("I2")
async def test_older_claim_is_refused_from_another_process(
    store: SqlStore, another_store: SqlStore
) -> None:
    old, _ = await supersede(store)
    await assert_all_refused(store, old, writer=another_store)


@pytest.mark.proves("I2")
async def test_older_claim_is_refused_even_in_the_same_batch_as_the_newer_claim(
    store: SqlStore,
) -> None:
    """All commands of the newer claim in the same batch take effect."""
    old, new = await supersede(store)
    stale = [say(old) for say, _ in HOLDER_COMMANDS.values()]
    good = SaveProgress(new, document({"n": 2}))
    answers = await apply_in_one_batch(store, *stale, good, *stale)
    now = TooLate(RunStatus.RUNNING)
    refusals = [now if each is TOO_LATE else each for _, each in HOLDER_COMMANDS.values()]
    assert answers == [*refusals, True, *refusals]
    stored = await read_record(store, new.run_id)
    assert (stored.progress, stored.checkpoint, stored.run.unread_count) == ('{"n":2}', None, 1)


@pytest.mark.proves("I2")
async def test_orphan_has_no_valid_claim_until_it_is_claimed_again(store: SqlStore) -> None:
    old = claim_of(await start_run(store))
    await orphan_run(store, old.run_id)
    await assert_all_refused(store, old, writer=store)
    await assert_all_refused(store, Claim(old.run_id, NO_TOKEN), writer=store)


@pytest.mark.proves("I2")
async def test_empty_token_is_never_a_valid_claim(store: SqlStore) -> None:
    """A queued run has no claim, and an empty token must not pass as one."""
    await assert_all_refused(store, Claim(await submit_run(store), NO_TOKEN), writer=store)


@pytest.mark.proves("I2")
@pytest.mark.parametrize("end", ["completed", "expired", "forced", "parked"])
async def test_released_or_lost_claim_is_stale(store: SqlStore, clock: FakeClock, end: str) -> None:
    claim = claim_of(await start_run(store, timeout_s=10))
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
async def test_result_is_accepted_only_once_and_only_from_the_current_claim(
    store: SqlStore, another_store: SqlStore
) -> None:
    """The stale holder and its successor finish at the same instant."""
    old, new = await supersede(store)
    stale_result, valid_result = await asyncio.gather(
        another_store.apply(Complete(old, document("old"))),
        store.apply(Complete(new, document("new"))),
    )
    assert isinstance(stale_result, TooLate)
    assert valid_result == Settled(RunStatus.SUCCEEDED)
    assert (await read_record(store, old.run_id)).result == '"new"'
    assert await store.apply(Complete(new, document("again"))) == TooLate(RunStatus.SUCCEEDED)
    ends = [after for _, after in await read_transitions(store, old.run_id) if after == "succeeded"]
    assert ends == ["succeeded"]


@pytest.mark.proves("I2")
async def test_every_claim_has_its_own_token(store: SqlStore) -> None:
    tokens = set()
    run_id = await submit_run(store)
    for generation in (1, 2):
        run = await claim_run(store, await register_instance(store))
        assert run.generation == generation
        tokens.add(run.token)
        await orphan_run(store, run_id)
    assert len(tokens) == 2
