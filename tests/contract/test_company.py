"""What goes with the commands of a process, in their own transactions."""

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
    claimed_one,
    instance,
    raise_limit,
    state,
    status,
    submitted,
    together,
)


class Claims:
    """Claims beside whatever `goes_with` says, and remembers what came of it."""

    def __init__(self, holder: InstanceId, goes_with: Callable[[Command[Any]], bool]) -> None:
        self.answers: list[tuple[ClaimedRun, ...]] = []
        self.has_answer = asyncio.Event()
        self._holder = holder
        self._goes_with = goes_with

    def company(self, command: Command[Any]) -> list[Command[Any]]:
        return [a_claim(self._holder, count=100)] if self._goes_with(command) else []

    def answered(self, _: Command[Any], answer: tuple[ClaimedRun, ...]) -> None:
        self.answers.append(answer)
        self.has_answer.set()


@pytest.mark.proves("R2.5")
async def test_a_run_is_claimed_in_the_transaction_that_accepts_it(store: SqlStore) -> None:
    claims = Claims(await instance(store), lambda command: isinstance(command, Submit))
    store.piggyback(claims.company, claims.answered)
    before = store.writer.batch_count
    run_id = await submitted(store, "ann")
    await claims.has_answer.wait()
    assert [one.run_id for (one,) in claims.answers] == [run_id]
    assert store.writer.batch_count == before + 1


@pytest.mark.proves("R2.5")
async def test_the_answer_to_a_submission_shows_the_claim_that_shared_its_commit(
    store: SqlStore,
) -> None:
    claims = Claims(await instance(store), lambda command: isinstance(command, Submit))
    store.piggyback(claims.company, claims.answered)
    first, second = a_submit("ann"), a_submit("ann", on_conflict=OnConflict.ENQUEUE)
    answers = [answer.run for answer in await together(store, first, second)]
    assert [run.status for run in answers] == [RunStatus.RUNNING, RunStatus.QUEUED]
    assert answers == [await state(store, one.run_id) for one in (first, second)]


@pytest.mark.proves("R2.5")
async def test_the_answer_to_a_replacing_submission_shows_its_claim_too(store: SqlStore) -> None:
    await submitted(store, "ann")
    claims = Claims(await instance(store), lambda command: isinstance(command, Submit))
    store.piggyback(claims.company, claims.answered)
    replacing = a_submit("ann", on_conflict=OnConflict.REPLACE)
    (answer,) = await together(store, replacing)
    assert answer.run.status is RunStatus.RUNNING
    assert answer.run == await state(store, replacing.run_id)


@pytest.mark.proves("R2.5")
async def test_a_slot_that_the_batch_frees_is_claimed_in_it(store: SqlStore) -> None:
    """The company is decided last, whatever was put before and after it."""
    await raise_limit(store, 1)
    holder = await instance(store)
    await submitted(store, "ann")
    first = await claimed_one(store, holder)
    second = await submitted(store, "ben")
    third = a_submit("eve")
    claims = Claims(holder, lambda _: True)
    stop = store.piggyback(claims.company, claims.answered)
    answers = await together(store, third, Complete(claim_of(first)))
    await claims.has_answer.wait()
    assert answers[1] == Settled(RunStatus.SUCCEEDED)
    assert [one.run_id for answer in claims.answers for one in answer] == [second]
    stop()
    await store.apply(a_submit("kim"))
    assert await status(store, third.run_id) is RunStatus.QUEUED


@pytest.mark.proves("R2.5")
async def test_nobody_keeps_company_where_there_is_nothing_to_win(store: SqlStore) -> None:
    claims = Claims(await instance(store), lambda _: False)
    store.piggyback(claims.company, claims.answered)
    run_id = await submitted(store, "ann")
    assert await status(store, run_id) is RunStatus.QUEUED
    assert not claims.answers


@pytest.mark.proves("R4.7")
async def test_company_waits_for_the_last_batch_of_those_that_came_together(
    store: SqlStore,
) -> None:
    await raise_limit(store, 2 * BATCH_COUNT_MAX)
    claims = Claims(await instance(store), lambda command: isinstance(command, Submit))
    store.piggyback(claims.company, claims.answered)
    submits = [a_submit(f"key-{number}") for number in range(BATCH_COUNT_MAX + 50)]
    await together(store, *submits)
    await claims.has_answer.wait()
    assert len(claims.answers) == 1
    assert len(claims.answers[0]) == 100
