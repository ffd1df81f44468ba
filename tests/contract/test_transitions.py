"""A run moves along the one table, by the one who may, or not at all (R2.1, R2.2, R2.4)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.instance import ReleaseOrphan
from headway.core.command.protocol import Command
from headway.core.command.run.cancel import CancelResult, ForceCancel, RequestCancel
from headway.core.command.run.expire import Expire
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail, Settled, TooLate
from headway.core.ids import RunId
from headway.core.run.events import EventType
from headway.core.run.run import NO_TOKEN, Claim
from headway.core.run.status import RunStatus
from headway.core.run.transitions import ACTIVE, TERMINAL, TRANSITIONS, Trigger
from headway.testing import FakeClock, a_claim, an_error, claim_of
from tests.contract.backends import read_all
from tests.contract.scenes import (
    TIMEOUT_S,
    Given,
    claimed,
    claimed_one,
    given,
    instance,
    kinds,
    moves,
    orphaned,
    raise_limit,
    record,
    running,
    state,
    status,
    submitted,
)

# What fires a trigger that needs no more than the run and its claim.
COMMANDS: Final[Mapping[Trigger, Callable[[Given], Command[Any]]]] = {
    Trigger.COMPLETE: lambda run: Complete(run.claim),
    Trigger.FAIL: lambda run: Fail(run.claim, an_error()),
    Trigger.CANCEL: lambda run: RequestCancel(run_id=run.run_id),
    Trigger.CONFIRM_CANCEL: lambda run: ConfirmCancel(run.claim),
    Trigger.FORCE_CANCEL: lambda run: ForceCancel(run.run_id),
    Trigger.EXPIRE: lambda run: Expire(run.run_id),
}


async def fire(store: SqlStore, run: Given, trigger: Trigger) -> None:
    before = await state(store, run.run_id)
    if trigger is Trigger.CLAIM:
        await store.apply(a_claim(await instance(store), lane=before.lane, count=10))
    elif trigger is Trigger.ABANDON:  # Whoever may hold it dies once too often.
        if before.status is RunStatus.RUNNING:
            await orphaned(store, run.run_id, times=3)
    else:
        await store.apply(COMMANDS[trigger](run))


@pytest.mark.proves("R2.1")
@pytest.mark.parametrize("source", RunStatus)
async def test_a_run_moves_along_the_table_or_not_at_all(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    found, expected = {}, {}
    for trigger in Trigger:
        run = await given(store, clock, source, key=trigger, lane=trigger)
        clock.advance(TIMEOUT_S)  # Every deadline has passed, so that only the table decides.
        await fire(store, run, trigger)
        found[trigger] = await status(store, run.run_id)
        expected[trigger] = TRANSITIONS[trigger].get(source, source)
    assert found == expected


@pytest.mark.proves("R2.3", "I7")
@pytest.mark.parametrize("source", sorted(TERMINAL))
async def test_what_has_ended_stays_as_it_is_whoever_asks(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    run = await given(store, clock, source)
    clock.advance(1e6)
    record_before, events_before = await record(store, run.run_id), await kinds(store, run.run_id)
    commands = [make(run) for make in COMMANDS.values()]
    commands.append(ReleaseOrphan(run.run_id, await instance(store)))
    for command in [*commands, *reversed(commands)]:
        await store.apply(command)
    assert await record(store, run.run_id) == record_before
    assert await kinds(store, run.run_id) == events_before


@pytest.mark.proves("R2.2")
@pytest.mark.parametrize("source", sorted(TERMINAL))
async def test_who_comes_too_late_is_told_and_nothing_changes(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    run = await given(store, clock, source)
    before = await read_all(store)
    assert await store.apply(Complete(run.claim)) == TooLate(source)
    assert await store.apply(Fail(run.claim, an_error())) == TooLate(source)
    assert await store.apply(ConfirmCancel(run.claim)) == TooLate(source)
    assert await store.apply(RequestCancel(run_id=run.run_id)) is CancelResult.TOO_LATE
    assert await store.apply(ForceCancel(run.run_id)) is False
    assert await store.apply(Expire(run.run_id)) is False
    assert await read_all(store) == before


@pytest.mark.proves("R2.2")
async def test_a_run_that_does_not_exist_is_said_not_to(store: SqlStore) -> None:
    nobody = Given(RunId("none"), Claim(RunId("none"), "token"))
    before = await read_all(store)
    assert await store.apply(Complete(nobody.claim)) == TooLate(None)
    assert await store.apply(RequestCancel(run_id=nobody.run_id)) is CancelResult.NOT_FOUND
    assert await store.apply(ForceCancel(nobody.run_id)) is False
    assert await store.apply(Expire(nobody.run_id)) is False
    assert await store.runs.run(nobody.run_id) is None
    assert await read_all(store) == before


@pytest.mark.proves("R2.2")
async def test_of_two_who_settle_one_wins_and_the_other_learns_what_is(
    store: SqlStore, another_store: SqlStore
) -> None:
    claim = claim_of(await running(store))
    answers = await asyncio.gather(
        store.apply(Complete(claim)), another_store.apply(Fail(claim, an_error()))
    )
    winner = await status(store, claim.run_id)
    assert winner in {RunStatus.SUCCEEDED, RunStatus.FAILED}
    assert sorted(map(repr, answers)) == sorted(map(repr, [Settled(winner), TooLate(winner)]))


@pytest.mark.proves("R2.4")
async def test_of_two_who_claim_the_only_run_one_gets_it(
    store: SqlStore, another_store: SqlStore
) -> None:
    run_id = await submitted(store)
    one, other = await instance(store), await instance(another_store)
    answers = await asyncio.gather(
        claimed(store, a_claim(one)), claimed(another_store, a_claim(other))
    )
    assert sorted(len(answer) for answer in answers) == [0, 1]
    run = await state(store, run_id)
    winner = one if answers[0] else other
    assert (run.instance_id, run.generation) == (winner, 1)
    assert await moves(store, run_id) == [(None, "queued"), ("queued", "running")]


@pytest.mark.proves("R2.4")
async def test_many_claims_at_once_share_the_runs_out(
    store: SqlStore, another_store: SqlStore
) -> None:
    """No run goes to two, and between them they take all."""
    run_ids = {await submitted(store, f"key-{number}") for number in range(12)}
    await raise_limit(store, 100)
    one, other = await instance(store), await instance(another_store)
    answers = await asyncio.gather(
        *(claimed(store, a_claim(one, count=2)) for _ in range(6)),
        *(claimed(another_store, a_claim(other, count=2)) for _ in range(6)),
    )
    taken = [run.run_id for answer in answers for run in answer]
    assert len(taken) == len(set(taken))
    assert set(taken) == run_ids


@pytest.mark.proves("R2.5")
async def test_completed_then_canceled_is_succeeded(store: SqlStore) -> None:
    claim = claim_of(await running(store))
    assert await store.apply(Complete(claim)) == Settled(RunStatus.SUCCEEDED)
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelResult.TOO_LATE
    assert await status(store, claim.run_id) is RunStatus.SUCCEEDED


@pytest.mark.proves("R2.5")
@pytest.mark.parametrize(
    ("settle", "end"),
    [
        (Complete, RunStatus.SUCCEEDED),
        (lambda claim: Fail(claim, an_error()), RunStatus.FAILED),
        (ConfirmCancel, RunStatus.CANCELED),
    ],
    ids=["completed", "failed", "confirmed"],
)
async def test_canceled_first_the_executor_decides_how_it_ends(
    store: SqlStore, settle: Callable[[Claim], Command[Any]], end: RunStatus
) -> None:
    claim = claim_of(await running(store))
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelResult.REQUESTED
    assert await store.apply(settle(claim)) == Settled(end)
    assert await moves(store, claim.run_id) == [
        (None, "queued"),
        ("queued", "running"),
        ("running", "cancelling"),
        ("cancelling", end),
    ]


@pytest.mark.proves("R2.5")
async def test_cancel_and_completion_at_once_end_legally(
    store: SqlStore, another_store: SqlStore
) -> None:
    for number in range(20):
        claim = claim_of(await running(store, f"key-{number}"))
        completed, canceled = await asyncio.gather(
            store.apply(Complete(claim)), another_store.apply(RequestCancel(run_id=claim.run_id))
        )
        assert completed == Settled(RunStatus.SUCCEEDED)
        assert canceled in {CancelResult.TOO_LATE, CancelResult.REQUESTED}
        seen_cancel = ("running", "cancelling") in await moves(store, claim.run_id)
        assert seen_cancel == (canceled is CancelResult.REQUESTED)


@pytest.mark.proves("R2.5")
async def test_a_confirmed_cancel_nobody_asked_for_is_refused(store: SqlStore) -> None:
    claim = claim_of(await running(store))
    assert await store.apply(ConfirmCancel(claim)) == TooLate(RunStatus.RUNNING)
    assert await status(store, claim.run_id) is RunStatus.RUNNING


@pytest.mark.proves("R2.6")
async def test_a_takeover_is_running_to_running_with_an_event_each(store: SqlStore) -> None:
    first = await running(store)
    await orphaned(store, first.run_id)
    assert (await state(store, first.run_id)).token == NO_TOKEN
    second = await claimed_one(store, await instance(store))
    assert (second.run_id, second.generation) == (first.run_id, 2)
    assert second.token != first.token
    assert await moves(store, first.run_id) == [(None, "queued"), ("queued", "running")]
    assert (await kinds(store, first.run_id))[2:] == [EventType.TAKEN_OVER, EventType.RESUMED]


@pytest.mark.proves("I7")
async def test_the_table_has_a_way_out_of_every_state_that_is_active(
    store: SqlStore, clock: FakeClock
) -> None:
    """Nothing active is stuck: some command ends it."""
    for source in sorted(ACTIVE):
        run = await given(store, clock, source)
        await store.apply(RequestCancel(run_id=run.run_id))
        clock.advance(1e6)
        await store.apply(ForceCancel(run.run_id))
        assert await status(store, run.run_id) in TERMINAL
