"""A run follows the transition table, by permitted commands only (R2.1, R2.2, R2.4)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.instance import ReleaseOrphan
from headway.core.command.protocol import Command
from headway.core.command.run.cancel import CancelResult, ForceCancel, RequestCancel
from headway.core.command.run.end_run import Expire
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
    RunWithClaim,
    bring_run_to,
    claim_run,
    claim_runs,
    orphan_run,
    raise_limit,
    read_event_types,
    read_record,
    read_run,
    read_status,
    read_transitions,
    register_instance,
    start_run,
    submit_run,
)

# The command of each trigger that needs only the run and its claim.
COMMANDS: Final[Mapping[Trigger, Callable[[RunWithClaim], Command[Any]]]] = {
    Trigger.COMPLETE: lambda run: Complete(run.claim),
    Trigger.FAIL: lambda run: Fail(run.claim, an_error()),
    Trigger.CANCEL: lambda run: RequestCancel(run_id=run.run_id),
    Trigger.CONFIRM_CANCEL: lambda run: ConfirmCancel(run.claim),
    Trigger.FORCE_CANCEL: lambda run: ForceCancel(run.run_id),
    Trigger.EXPIRE: lambda run: Expire(run.run_id),
}


async def fire(store: SqlStore, run: RunWithClaim, trigger: Trigger) -> None:
    before = await read_run(store, run.run_id)
    if trigger is Trigger.CLAIM:
        await store.apply(a_claim(await register_instance(store), lane=before.lane, count=10))
    elif trigger is Trigger.ABANDON:  # Its holder dies until the run is poison.
        if before.status is RunStatus.RUNNING:
            await orphan_run(store, run.run_id, times=3)
    else:
        await store.apply(COMMANDS[trigger](run))


@pytest.mark.proves("R2.1")
@pytest.mark.parametrize("source", RunStatus)
async def test_trigger_changes_the_status_exactly_as_the_transition_table_allows(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    outcomes, expected = {}, {}
    for trigger in Trigger:
        run = await bring_run_to(store, clock, source, key=trigger, lane=trigger)
        clock.advance(TIMEOUT_S)  # Every deadline has passed, so that only the table decides.
        await fire(store, run, trigger)
        outcomes[trigger] = await read_status(store, run.run_id)
        expected[trigger] = TRANSITIONS[trigger].get(source, source)
    assert outcomes == expected


@pytest.mark.proves("R2.3", "I7")
@pytest.mark.parametrize("source", sorted(TERMINAL))
async def test_ended_run_never_changes(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    run = await bring_run_to(store, clock, source)
    clock.advance(1e6)
    record_before, events_before = (
        await read_record(store, run.run_id),
        await read_event_types(store, run.run_id),
    )
    commands = [make(run) for make in COMMANDS.values()]
    commands.append(ReleaseOrphan(run.run_id, await register_instance(store)))
    for command in [*commands, *reversed(commands)]:
        await store.apply(command)
    assert await read_record(store, run.run_id) == record_before
    assert await read_event_types(store, run.run_id) == events_before


@pytest.mark.proves("R2.2")
@pytest.mark.parametrize("source", sorted(TERMINAL))
async def test_late_command_is_refused_and_changes_nothing(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    run = await bring_run_to(store, clock, source)
    before = await read_all(store)
    assert await store.apply(Complete(run.claim)) == TooLate(source)
    assert await store.apply(Fail(run.claim, an_error())) == TooLate(source)
    assert await store.apply(ConfirmCancel(run.claim)) == TooLate(source)
    assert await store.apply(RequestCancel(run_id=run.run_id)) is CancelResult.TOO_LATE
    assert await store.apply(ForceCancel(run.run_id)) is False
    assert await store.apply(Expire(run.run_id)) is False
    assert await read_all(store) == before


@pytest.mark.proves("R2.2")
async def test_command_for_an_unknown_run_is_refused(store: SqlStore) -> None:
    nobody = RunWithClaim(RunId("none"), Claim(RunId("none"), "token"))
    before = await read_all(store)
    assert await store.apply(Complete(nobody.claim)) == TooLate(None)
    assert await store.apply(RequestCancel(run_id=nobody.run_id)) is CancelResult.NOT_FOUND
    assert await store.apply(ForceCancel(nobody.run_id)) is False
    assert await store.apply(Expire(nobody.run_id)) is False
    assert await store.runs.run(nobody.run_id) is None
    assert await read_all(store) == before


@pytest.mark.proves("R2.2")
async def test_only_one_of_two_commands_ends_a_run_and_the_other_returns_the_status(
    store: SqlStore, another_store: SqlStore
) -> None:
    claim = claim_of(await start_run(store))
    answers = await asyncio.gather(
        store.apply(Complete(claim)), another_store.apply(Fail(claim, an_error()))
    )
    winner = await read_status(store, claim.run_id)
    assert winner in {RunStatus.SUCCEEDED, RunStatus.FAILED}
    assert sorted(map(repr, answers)) == sorted(map(repr, [Settled(winner), TooLate(winner)]))


@pytest.mark.proves("R2.4")
async def test_one_of_two_claims_gets_the_only_run(
    store: SqlStore, another_store: SqlStore
) -> None:
    run_id = await submit_run(store)
    first, second = await register_instance(store), await register_instance(another_store)
    answers = await asyncio.gather(
        claim_runs(store, a_claim(first)), claim_runs(another_store, a_claim(second))
    )
    assert sorted(len(answer) for answer in answers) == [0, 1]
    run = await read_run(store, run_id)
    winner = first if answers[0] else second
    assert (run.instance_id, run.generation) == (winner, 1)
    assert await read_transitions(store, run_id) == [(None, "queued"), ("queued", "running")]


@pytest.mark.proves("R2.4")
async def test_simultaneous_claims_share_the_runs(store: SqlStore, another_store: SqlStore) -> None:
    """No run is claimed twice, and together the claims take all runs."""
    run_ids = {await submit_run(store, f"key-{number}") for number in range(12)}
    await raise_limit(store, 100)
    first, second = await register_instance(store), await register_instance(another_store)
    answers = await asyncio.gather(
        *(claim_runs(store, a_claim(first, count=2)) for _ in range(6)),
        *(claim_runs(another_store, a_claim(second, count=2)) for _ in range(6)),
    )
    taken = [run.run_id for answer in answers for run in answer]
    assert len(taken) == len(set(taken))
    assert set(taken) == run_ids


@pytest.mark.proves("R2.5")
async def test_run_that_is_canceled_after_its_completion_stays_succeeded(store: SqlStore) -> None:
    claim = claim_of(await start_run(store))
    assert await store.apply(Complete(claim)) == Settled(RunStatus.SUCCEEDED)
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelResult.TOO_LATE
    assert await read_status(store, claim.run_id) is RunStatus.SUCCEEDED


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
async def test_executor_decides_the_end_of_a_cancelling_run(
    store: SqlStore, settle: Callable[[Claim], Command[Any]], end: RunStatus
) -> None:
    claim = claim_of(await start_run(store))
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelResult.REQUESTED
    assert await store.apply(settle(claim)) == Settled(end)
    assert await read_transitions(store, claim.run_id) == [
        (None, "queued"),
        ("queued", "running"),
        ("running", "cancelling"),
        ("cancelling", end),
    ]


@pytest.mark.proves("R2.5")
async def test_simultaneous_cancel_and_completion_end_in_a_valid_status(
    store: SqlStore, another_store: SqlStore
) -> None:
    for number in range(20):
        claim = claim_of(await start_run(store, f"key-{number}"))
        completed, canceled = await asyncio.gather(
            store.apply(Complete(claim)), another_store.apply(RequestCancel(run_id=claim.run_id))
        )
        assert completed == Settled(RunStatus.SUCCEEDED)
        assert canceled in {CancelResult.TOO_LATE, CancelResult.REQUESTED}
        seen_cancel = ("running", "cancelling") in await read_transitions(store, claim.run_id)
        assert seen_cancel == (canceled is CancelResult.REQUESTED)


@pytest.mark.proves("R2.5")
async def test_confirming_a_cancel_that_was_never_requested_is_refused(store: SqlStore) -> None:
    claim = claim_of(await start_run(store))
    assert await store.apply(ConfirmCancel(claim)) == TooLate(RunStatus.RUNNING)
    assert await read_status(store, claim.run_id) is RunStatus.RUNNING


@pytest.mark.proves("R2.6")
async def test_run_stays_running_in_a_takeover_and_each_step_emits_one_event(
    store: SqlStore,
) -> None:
    first = await start_run(store)
    await orphan_run(store, first.run_id)
    assert (await read_run(store, first.run_id)).token == NO_TOKEN
    second = await claim_run(store, await register_instance(store))
    assert (second.run_id, second.generation) == (first.run_id, 2)
    assert second.token != first.token
    assert await read_transitions(store, first.run_id) == [(None, "queued"), ("queued", "running")]
    assert (await read_event_types(store, first.run_id))[2:] == [
        EventType.TAKEN_OVER,
        EventType.RESUMED,
    ]


@pytest.mark.proves("I7")
async def test_every_active_status_has_a_transition_to_an_end(
    store: SqlStore, clock: FakeClock
) -> None:
    """No active run is stuck: some command ends it."""
    for source in sorted(ACTIVE):
        run = await bring_run_to(store, clock, source)
        await store.apply(RequestCancel(run_id=run.run_id))
        clock.advance(1e6)
        await store.apply(ForceCancel(run.run_id))
        assert await read_status(store, run.run_id) in TERMINAL
