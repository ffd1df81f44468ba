"""A decision is written only if its rows are unchanged (R2.2); each guard is tested alone."""

import asyncio
import sqlite3

import pytest

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.driver_errors import is_conflict
from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.statements import Update
from headway.adapters.sql.tables import runs, stream
from headway.adapters.sql.write.links.driver_link import Link
from headway.adapters.sql.write.load import load_batch_state
from headway.adapters.sql.write.write_changes import write_changes
from headway.core.batch_state import BatchState
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.protocol import Command, RowsNeeded
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.report import SaveProgress
from headway.core.command.run.settle import Complete
from headway.core.command.run.submit import Accepted
from headway.core.ids import LaneName
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.testing import FakeClock, a_submit, claim_of, document
from tests.contract.backends import DatabaseTarget, open_link, read_all
from tests.contract.scenes import read_run, read_status, start_run, submit_run

SERVERS = ("postgres", "mariadb", "postgres-several", "mariadb-several")


async def load(link: Link, command: Command[object], clock: FakeClock) -> BatchState:
    rows = RowsNeeded()
    command.need(rows)
    batch, _ = await load_batch_state(link, rows, now=clock)
    return batch


async def load_and_roll_back(link: Link, command: Command[object], clock: FakeClock) -> BatchState:
    """Load the rows of a command and release the locks, so that another writer can change them."""
    await link.begin()
    batch = await load(link, command, clock)
    await link.rollback()
    return batch


async def write_stale(link: Link, command: Command[object], batch: BatchState) -> Exception:
    """Write a stale decision, and return the error: the guard's, or that of a duplicate event."""
    seq = batch.seq
    command.decide(batch)
    await link.begin()
    with pytest.raises(Exception) as refused:  # noqa: PT011
        await write_changes(link, batch, loaded_seq=seq)
    assert is_conflict(refused.value)
    await link.rollback()
    return refused.value


@pytest.mark.proves("R2.2")
@pytest.mark.parametrize(
    ("column", "value"),
    [("status", RunStatus.CANCELLING.value), ("token", "another's"), ("revision", 1000)],
    ids=str,
)
async def test_row_changed_since_it_was_read_is_not_overwritten(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock, column: str, value: str | int
) -> None:
    """Exactly one column differs, so each guard is tested by itself."""
    run = await start_run(store)
    command = SaveProgress(claim_of(run), document({"n": 1}))
    async with open_link(store, target) as link:
        batch = await load_and_roll_back(link, command, clock)
        await link.begin()
        await link.write(Update(runs, (column,), ("id",)), [(value, run.run_id)])
        await link.commit()
        before = await read_all(store)
        refused = await write_stale(link, command, batch)
    assert refused.args[0].table is runs
    assert await read_all(store) == before


@pytest.mark.proves("R2.2")
async def test_run_that_another_writer_ended_is_not_ended_again(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock
) -> None:
    run = await start_run(store)
    command = Complete(claim_of(run), document("stale"))
    async with open_link(store, target) as link:
        batch = await load_and_roll_back(link, command, clock)
        await store.apply(RequestCancel(run_id=run.run_id))
        before = await read_all(store)
        await write_stale(link, command, batch)
    assert await read_all(store) == before
    assert await read_status(store, run.run_id) is RunStatus.CANCELLING


@pytest.mark.proves("I13")
async def test_event_number_is_not_used_twice(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock
) -> None:
    """The counter is a guard even if the rows themselves are unchanged."""
    run = await start_run(store)
    command = SaveProgress(claim_of(run), document({"n": 1}))
    async with open_link(store, target) as link:
        batch = await load_and_roll_back(link, command, clock)
        await link.begin()
        await link.write(Update(stream, ("seq",), ("id",)), [(batch.seq + 5, 1)])
        await link.commit()
        refused = await write_stale(link, command, batch)
    assert refused.args[0].table is stream


@pytest.mark.proves("R2.2")
async def test_batch_that_fails_its_guard_is_decided_again(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Only the writer notices: each caller gets the answer of the second decision."""
    for number in range(20):
        key = f"key-{number}"
        first, second = await asyncio.gather(
            store.apply(a_submit(key, on_conflict=OnConflict.ENQUEUE)),
            another_store.apply(a_submit(key, on_conflict=OnConflict.ENQUEUE)),
        )
        assert isinstance(first, Accepted)
        assert isinstance(second, Accepted)
        states = [await read_run(store, answer.run_id) for answer in (first, second)]
        head, behind = sorted(states, key=lambda run: run.seq)
        assert (head.head_key, behind.waiting_key) == (key, key)


@pytest.mark.proves("I13")
@pytest.mark.parametrize("backend", SERVERS, indirect=True)
async def test_counter_is_locked_from_the_decision_to_the_commit(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock
) -> None:
    """Another writer waits for it and continues from there, so no number is used twice."""
    command = a_submit("ann")
    async with open_link(store, target) as link:
        await link.begin()
        batch = await load(link, command, clock)
        seq = batch.seq
        other = asyncio.ensure_future(store.apply(a_submit("bob")))
        while not other.done() and not await has_lock_waiter(store._database):
            pass
        assert not other.done()
        mine = command.decide(batch)
        await write_changes(link, batch, loaded_seq=seq)
        await link.commit()
        theirs = await other
    assert mine == Accepted(command.run_id, seq + 1)
    assert isinstance(theirs, Accepted)
    assert theirs.seq == seq + 2
    assert store.writer.conflict_count == 0


async def has_lock_waiter(database: Database) -> bool:
    """Return whether a transaction of this server waits for a lock."""
    query = {
        "postgres": "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
        "mysql": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
    }[database.driver]
    async with database.open_session() as session:
        ((*_, count),) = await session.exec_driver_sql(query)
        return int(count) > 0


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite-file"], indirect=True)
async def test_no_other_program_writes_between_begin_and_commit(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock
) -> None:
    """The rows that were read are still true when they are written, for any program.

    A transaction that took the lock with its first write would decide on older rows and fail
    with "database is locked" when it writes.
    """
    (url,) = target.urls
    stranger = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)
    try:
        async with open_link(store, target) as link:
            await link.begin()
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                stranger.execute("BEGIN IMMEDIATE")
            await load(link, a_submit(), clock)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                stranger.execute("UPDATE stream SET seq = seq + 1")
            await link.commit()
            stranger.execute("BEGIN IMMEDIATE")
            stranger.execute("ROLLBACK")
    finally:
        stranger.close()
    await submit_run(store)


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["postgres", "mariadb"], indirect=True)
async def test_batches_that_lock_the_same_lanes_do_not_deadlock(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Every batch locks lanes in the order of their names."""
    names = [LaneName(f"lane-{number}") for number in range(300)]

    async def set_all(writer: SqlStore) -> None:
        for limit in range(1, 16):
            changes = [SetLane(name=name, max_concurrent=limit) for name in names]
            await asyncio.gather(*(writer.apply(change) for change in changes))

    await asyncio.gather(*(store.apply(SetLane(name=name, is_paused=False)) for name in names))
    await asyncio.gather(set_all(store), set_all(another_store))
    assert (store.conflict_count, another_store.conflict_count) == (0, 0)
