"""Commands commit together, and stand or fall alone (R4.7)."""

import asyncio
import sqlite3
from typing import Any

import pytest
import sqlalchemy as sa

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.tables import writers
from headway.adapters.sql.write.command_queue import BATCH_COUNT_MAX
from headway.core.batch_state import BatchState
from headway.core.command.admin.instance import RegisterInstance
from headway.core.command.admin.probe import Probe
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.report import SaveProgress
from headway.core.command.run.settle import Complete, Settled
from headway.core.command.run.submit import Accepted, Busy
from headway.core.errors import StoreClosed, StoreFailed
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.testing import FakeClock, a_claim, a_submit, an_instance, claim_of, document
from tests.contract.backends import Place, opened, read_all
from tests.contract.scenes import (
    claimed,
    events,
    instance,
    raise_limit,
    running,
    status,
    submitted,
    together,
)


@pytest.mark.proves("R4.7")
async def test_one_that_the_database_refuses_does_not_undo_its_neighbours(
    store: SqlStore,
) -> None:
    taken = await submitted(store, "taken")
    commands = [a_submit(f"key-{number}") for number in range(50)]
    commands[17] = a_submit("key-17", run_id=taken)  # An id that is given already.
    answers = await together(store, *commands)
    assert isinstance(answers.pop(17), StoreFailed)
    assert all(isinstance(answer, Accepted) for answer in answers)
    for answer in answers:
        assert await store.runs.run(answer.run_id) is not None
    seqs = [event.seq for event in await events(store)]
    assert seqs == list(range(1, 51))
    assert await status(store, taken) is RunStatus.QUEUED


@pytest.mark.proves("R4.7")
async def test_a_mistake_of_ours_reaches_only_the_one_who_made_it(store: SqlStore) -> None:
    known = an_instance()
    await store.apply(known)
    commands: list[Any] = [a_submit(f"key-{number}") for number in range(20)]
    commands[5:5] = [known]
    answers = await together(store, *commands)
    assert isinstance(answers.pop(5), AssertionError)
    assert all(isinstance(answer, Accepted) for answer in answers)


class _Halfway:
    """A command with a bug: it changes something, and then falls over."""

    def __init__(self, victim: RegisterInstance) -> None:
        self._victim = victim

    def need(self, needs: RowsNeeded) -> None:
        self._victim.need(needs)

    def decide(self, world: BatchState) -> None:
        self._victim.decide(world)
        raise ZeroDivisionError


@pytest.mark.proves("R4.7")
async def test_nothing_is_kept_of_one_that_fell_over_halfway(store: SqlStore) -> None:
    victim = an_instance()
    answers = await together(store, a_submit("a"), _Halfway(victim), a_submit("b"))
    assert isinstance(answers[0], Accepted)
    assert isinstance(answers[1], StoreFailed)
    assert isinstance(answers[2], Accepted)
    assert list(await store.runs.instances()) == []


@pytest.mark.proves("R4.7")
async def test_each_command_of_a_batch_sees_what_those_before_it_did(
    store: SqlStore,
) -> None:
    holder = await instance(store)
    first, again = a_submit(), a_submit()
    answers = await together(
        store, first, again, a_submit(on_conflict=OnConflict.ENQUEUE), a_claim(holder, count=9)
    )
    assert answers[:2] == [Accepted(first.run_id, 1), Busy(first.run_id)]
    assert isinstance(answers[2], Accepted)
    assert [one.run_id for one in answers[3]] == [first.run_id]


@pytest.mark.proves("R4.7")
async def test_an_end_and_the_next_submit_of_its_key_share_a_batch(store: SqlStore) -> None:
    """The new head is written after the old one has left: it is one commit, and no conflict."""
    one = await running(store)
    batch_count = store.writer.batch_count
    answers = await together(store, Complete(claim_of(one)), a_submit())
    assert answers[0] == Settled(RunStatus.SUCCEEDED)
    assert isinstance(answers[1], Accepted)
    assert store.writer.batch_count == batch_count + 1
    assert store.writer.conflict_count == 0


@pytest.mark.proves("R4.7")
async def test_commands_that_wait_together_commit_together(store: SqlStore) -> None:
    holder = await instance(store)
    await raise_limit(store, 1000)
    before = store.writer.batch_count
    await together(store, *(a_submit(f"key-{number}") for number in range(300)))
    ones = await claimed(store, a_claim(holder, count=1000))
    assert len(ones) == 300
    await together(store, *(SaveProgress(claim_of(one), document({"n": 1})) for one in ones))
    await together(store, *(Complete(claim_of(one), document({"n": 1})) for one in ones))
    assert store.writer.batch_count - before == 4
    assert store.writer.conflict_count == 0


@pytest.mark.proves("R4.7")
async def test_a_crowd_larger_than_a_batch_is_served_in_order(store: SqlStore) -> None:
    count = BATCH_COUNT_MAX * 2 + 100
    commands = [a_submit(f"key-{number}") for number in range(count)]
    answers = await together(store, *commands)
    assert answers == [
        Accepted(command.run_id, seq) for seq, command in enumerate(commands, start=1)
    ]


@pytest.mark.proves("I3")
async def test_what_a_caller_no_longer_waits_for_is_done_all_the_same(store: SqlStore) -> None:
    command = a_submit()
    impatient = asyncio.ensure_future(store.apply(command))
    await asyncio.sleep(0)  # It has been handed over.
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert isinstance(await store.apply(a_submit("other")), Accepted)
    assert await status(store, command.run_id) is RunStatus.QUEUED


@pytest.mark.proves("I3")
async def test_closing_commits_what_waits_and_takes_nothing_more(
    place: Place, clock: FakeClock
) -> None:
    async with opened(place, clock) as store:
        waiting = [asyncio.ensure_future(store.apply(a_submit(f"key-{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        await store.writer.close()
        assert all(isinstance(answer, Accepted) for answer in await asyncio.gather(*waiting))
        with pytest.raises(StoreClosed):
            await store.apply(a_submit("late"))


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["sqlite-file"], indirect=True)
async def test_a_database_that_refuses_every_write_is_said_to(
    store: SqlStore, place: Place
) -> None:
    """As on a full disk; when there is room again, the store goes on."""
    (url,) = place.urls
    stranger = sqlite3.connect(url.removeprefix("sqlite:///"))
    refuse = "BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'full'); END"
    stranger.execute(f"CREATE TRIGGER full {refuse}")
    stranger.commit()
    with pytest.raises(StoreFailed, match="full"):
        await store.apply(a_submit())
    stranger.execute("DROP TRIGGER full")
    stranger.commit()
    stranger.close()
    await submitted(store)


@pytest.mark.proves("I20")
async def test_probe_commits_a_write_and_changes_nothing_else(store: SqlStore) -> None:
    async def batch_number() -> int:
        async with store._database.open_snapshot() as connection:
            return int(await connection.scalar(sa.select(sa.func.max(writers.c.batch))) or 0)

    await submitted(store)
    before, rows = await batch_number(), await read_all(store)
    await store.apply(Probe())
    assert await batch_number() == before + 1
    assert await read_all(store) == rows
