"""Commands that are added to the transactions of other commands (piggyback)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.write.command_queue import BATCH_COUNT_MAX
from headway.core.command.protocol import Command
from headway.core.command.run.claim import ClaimedRun
from headway.core.command.run.settle import Complete, Settled
from headway.core.command.run.submit import Submit
from headway.core.ids import InstanceId
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.testing import a_claim, a_submit, claim_of
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_run,
    raise_limit,
    read_run,
    read_status,
    register_instance,
    submit_run,
)


class Claims:
    """Claims along with each command that `goes_with` selects, and stores the answers."""

    def __init__(self, holder: InstanceId, goes_with: Callable[[Command[Any]], bool]) -> None:
        self.answers: list[tuple[ClaimedRun, ...]] = []
        self.has_answer = asyncio.Event()
        self._holder = holder
        self._goes_with = goes_with

    def command_for(self, command: Command[Any]) -> Command[Any] | None:
        return a_claim(self._holder, count=100) if self._goes_with(command) else None

    def store_answer(self, _: Command[Any], answer: tuple[ClaimedRun, ...]) -> None:
        self.answers.append(answer)
        self.has_answer.set()


@pytest.mark.proves("R2.5")
async def test_run_is_claimed_in_the_transaction_that_accepts_it(store: SqlStore) -> None:
    claims = Claims(await register_instance(store), lambda command: isinstance(command, Submit))
    store.piggyback(claims.command_for, claims.store_answer)
    before = store.writer.batch_count
    run_id = await submit_run(store, "ann")
    await claims.has_answer.wait()
    assert [run.run_id for (run,) in claims.answers] == [run_id]
    assert store.writer.batch_count == before + 1


@pytest.mark.proves("R2.5")
async def test_answer_to_a_submission_shows_the_claim_of_the_same_commit(
    store: SqlStore,
) -> None:
    claims = Claims(await register_instance(store), lambda command: isinstance(command, Submit))
    store.piggyback(claims.command_for, claims.store_answer)
    first, second = a_submit("ann"), a_submit("ann", on_conflict=OnConflict.ENQUEUE)
    answers = [answer.run for answer in await apply_in_one_batch(store, first, second)]
    assert [run.status for run in answers] == [RunStatus.RUNNING, RunStatus.QUEUED]
    assert answers == [await read_run(store, run.run_id) for run in (first, second)]


@pytest.mark.proves("R2.5")
async def test_answer_to_a_replacing_submission_shows_its_claim(store: SqlStore) -> None:
    await submit_run(store, "ann")
    claims = Claims(await register_instance(store), lambda command: isinstance(command, Submit))
    store.piggyback(claims.command_for, claims.store_answer)
    replacing = a_submit("ann", on_conflict=OnConflict.REPLACE)
    (answer,) = await apply_in_one_batch(store, replacing)
    assert answer.run.status is RunStatus.RUNNING
    assert answer.run == await read_run(store, replacing.run_id)


@pytest.mark.proves("R2.5")
async def test_slot_that_a_batch_frees_is_claimed_in_the_same_batch(store: SqlStore) -> None:
    """The added claims are decided last, so the order of the other commands does not matter."""
    await raise_limit(store, 1)
    holder = await register_instance(store)
    await submit_run(store, "ann")
    first = await claim_run(store, holder)
    second = await submit_run(store, "ben")
    third = a_submit("eve")
    claims = Claims(holder, lambda _: True)
    stop = store.piggyback(claims.command_for, claims.store_answer)
    answers = await apply_in_one_batch(store, third, Complete(claim_of(first)))
    await claims.has_answer.wait()
    assert answers[1] == Settled(RunStatus.SUCCEEDED)
    assert [run.run_id for answer in claims.answers for run in answer] == [second]
    stop()
    await store.apply(a_submit("kim"))
    assert await read_status(store, third.run_id) is RunStatus.QUEUED


@pytest.mark.proves("R2.5")
async def test_no_claim_is_added_to_a_command_that_is_not_selected(store: SqlStore) -> None:
    claims = Claims(await register_instance(store), lambda _: False)
    store.piggyback(claims.command_for, claims.store_answer)
    run_id = await submit_run(store, "ann")
    assert await read_status(store, run_id) is RunStatus.QUEUED
    assert not claims.answers


@pytest.mark.proves("R4.7")
async def test_claims_are_added_only_to_the_last_batch_of_simultaneous_commands(
    store: SqlStore,
) -> None:
    await raise_limit(store, 2 * BATCH_COUNT_MAX)
    claims = Claims(await register_instance(store), lambda command: isinstance(command, Submit))
    store.piggyback(claims.command_for, claims.store_answer)
    submits = [a_submit(f"key-{number}") for number in range(BATCH_COUNT_MAX + 50)]
    await apply_in_one_batch(store, *submits)
    await claims.has_answer.wait()
    assert len(claims.answers) == 1
    assert len(claims.answers[0]) == 100
