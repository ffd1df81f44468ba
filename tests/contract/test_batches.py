"""Commands commit together, and each succeeds or fails alone (R4.7)."""

import asyncio
import sqlite3
from typing import Any

import pytest
import sqlalchemy as sa

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.tables import writers
from headway.adapters.sql.write.command_queue import BATCH_COUNT_MAX
from headway.core.batch_state import BatchState
from headway.core.command.admin.instance import Probe, RegisterInstance
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.report import SaveProgress
from headway.core.command.run.settle import Complete, Settled
from headway.core.command.run.submit import Accepted, Busy
from headway.core.errors import StoreClosed, StoreFailed
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.testing import FakeClock, a_claim, a_submit, an_instance, claim_of, document
from tests.contract.backends import DatabaseTarget, open_target, read_all
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_runs,
    raise_limit,
    read_events,
    read_status,
    register_instance,
    start_run,
    submit_run,
)


@pytest.mark.proves("R4.7")
async def test_command_that_the_database_refuses_does_not_undo_the_others(
    store: SqlStore,
) -> None:
    taken = await submit_run(store, "taken")
    commands = [a_submit(f"key-{number}") for number in range(50)]
    commands[17] = a_submit("key-17", run_id=taken)  # This id exists already.
    answers = await apply_in_one_batch(store, *commands)
    assert isinstance(answers.pop(17), StoreFailed)
    assert all(isinstance(answer, Accepted) for answer in answers)
    for answer in answers:
        assert await store.runs.run(answer.run_id) is not None
    seqs = [event.seq for event in await read_events(store)]
    assert seqs == list(range(1, 51))
    assert await read_status(store, taken) is RunStatus.QUEUED


@pytest.mark.proves("R4.7")
async def test_internal_error_of_a_command_reaches_only_the_caller_of_that_command(
    store: SqlStore,
) -> None:
    registered = an_instance()
    await store.apply(registered)
    commands: list[Any] = [a_submit(f"key-{number}") for number in range(20)]
    commands[5:5] = [registered]
    answers = await apply_in_one_batch(store, *commands)
    assert isinstance(answers.pop(5), AssertionError)
    assert all(isinstance(answer, Accepted) for answer in answers)


class _Halfway:
    """A command with a bug: it changes a row and then raises."""

    may_free_capacity = False

    def __init__(self, victim: RegisterInstance) -> None:
        self._victim = victim

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        self._victim.need(rows)

    def decide(self, batch: BatchState) -> None:
        self._victim.decide(batch)
        raise ZeroDivisionError


@pytest.mark.proves("R4.7")
async def test_changes_of_a_command_that_raises_are_discarded(store: SqlStore) -> None:
    victim = an_instance()
    answers = await apply_in_one_batch(store, a_submit("a"), _Halfway(victim), a_submit("b"))
    assert isinstance(answers[0], Accepted)
    assert isinstance(answers[1], StoreFailed)
    assert isinstance(answers[2], Accepted)
    assert list(await store.runs.instances()) == []


@pytest.mark.proves("R4.7")
async def test_each_command_of_a_batch_sees_the_changes_of_those_before_it(
    store: SqlStore,
) -> None:
    holder = await register_instance(store)
    first, again = a_submit(), a_submit()
    answers = await apply_in_one_batch(
        store, first, again, a_submit(on_conflict=OnConflict.ENQUEUE), a_claim(holder, count=9)
    )
    assert answers[:2] == [Accepted(first.run_id, 1), Busy(first.run_id)]
    assert isinstance(answers[2], Accepted)
    assert [run.run_id for run in answers[3]] == [first.run_id]


@pytest.mark.proves("R4.7")
async def test_end_of_a_run_and_the_next_submission_of_its_key_share_a_batch(
    store: SqlStore,
) -> None:
    """The new head is written after the old one was removed, so one commit has no conflict."""
    run = await start_run(store)
    batch_count = store.writer.batch_count
    answers = await apply_in_one_batch(store, Complete(claim_of(run)), a_submit())
    assert answers[0] == Settled(RunStatus.SUCCEEDED)
    assert isinstance(answers[1], Accepted)
    assert store.writer.batch_count == batch_count + 1
    assert store.writer.conflict_count == 0


@pytest.mark.proves("R4.7")
async def test_pending_commands_commit_together(store: SqlStore) -> None:
    holder = await register_instance(store)
    await raise_limit(store, 1000)
    before = store.writer.batch_count
    await apply_in_one_batch(store, *(a_submit(f"key-{number}") for number in range(300)))
    runs = await claim_runs(store, a_claim(holder, count=1000))
    assert len(runs) == 300
    await apply_in_one_batch(
        store, *(SaveProgress(claim_of(run), document({"n": 1})) for run in runs)
    )
    await apply_in_one_batch(store, *(Complete(claim_of(run), document({"n": 1})) for run in runs))
    assert store.writer.batch_count - before == 4
    assert store.writer.conflict_count == 0


@pytest.mark.proves("R4.7")
async def test_commands_that_do_not_fit_into_one_batch_are_applied_in_order(
    store: SqlStore,
) -> None:
    count = BATCH_COUNT_MAX * 2 + 100
    commands = [a_submit(f"key-{number}") for number in range(count)]
    answers = await apply_in_one_batch(store, *commands)
    assert answers == [
        Accepted(command.run_id, seq) for seq, command in enumerate(commands, start=1)
    ]


@pytest.mark.proves("I3")
async def test_command_of_a_cancelled_caller_is_still_applied(store: SqlStore) -> None:
    command = a_submit()
    impatient = asyncio.ensure_future(store.apply(command))
    await asyncio.sleep(0)  # The command was handed over.
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert isinstance(await store.apply(a_submit("other")), Accepted)
    assert await read_status(store, command.run_id) is RunStatus.QUEUED


@pytest.mark.proves("I3")
async def test_store_that_closes_commits_pending_commands_and_refuses_new_ones(
    target: DatabaseTarget, clock: FakeClock
) -> None:
    async with open_target(target, clock) as store:
        waiting = [asyncio.ensure_future(store.apply(a_submit(f"key-{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        await store.writer.close()
        assert all(isinstance(answer, Accepted) for answer in await asyncio.gather(*waiting))
        with pytest.raises(StoreClosed):
            await store.apply(a_submit("late"))


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["sqlite-file"], indirect=True)
async def test_database_that_refuses_every_write_is_reported(
    store: SqlStore, target: DatabaseTarget
) -> None:
    """For example, the disk is full. When there is space again, the store continues."""
    (url,) = target.urls
    stranger = sqlite3.connect(url.removeprefix("sqlite:///"))
    refuse = "BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'full'); END"
    stranger.execute(f"CREATE TRIGGER full {refuse}")
    stranger.commit()
    with pytest.raises(StoreFailed, match="full"):
        await store.apply(a_submit())
    stranger.execute("DROP TRIGGER full")
    stranger.commit()
    stranger.close()
    await submit_run(store)


@pytest.mark.proves("I20")
async def test_probe_commits_a_write_and_changes_nothing_else(store: SqlStore) -> None:
    async def batch_number() -> int:
        async with store._database.open_snapshot() as connection:
            return int(await connection.scalar(sa.select(sa.func.max(writers.c.batch))) or 0)

    await submit_run(store)
    before, rows = await batch_number(), await read_all(store)
    await store.apply(Probe())
    assert await batch_number() == before + 1
    assert await read_all(store) == rows
