"""A decision is written only on the rows on which it was taken (R2.2), each guard by itself."""

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
from headway.core.command.admin.set_lane import SetLane
from headway.core.command.protocol import Command, RowsNeeded
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.report import SaveProgress
from headway.core.command.run.settle import Complete
from headway.core.command.run.submit import Accepted
from headway.core.ids import LaneName
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.testing import FakeClock, a_submit, claim_of, document
from tests.contract.backends import Place, linked, read_all
from tests.contract.scenes import running, state, status, submitted

SERVERS = ("postgres", "mariadb", "postgres-several", "mariadb-several")


async def load(link: Link, command: Command[object], clock: FakeClock) -> BatchState:
    needs = RowsNeeded()
    command.need(needs)
    world, _ = await load_batch_state(link, needs, now=clock)
    return world


async def load_and_let_go(link: Link, command: Command[object], clock: FakeClock) -> BatchState:
    """What the command would have decided on, had nobody come in between."""
    await link.begin()
    world = await load(link, command, clock)
    await link.rollback()
    return world


async def write_stale(link: Link, command: Command[object], world: BatchState) -> Exception:
    """What is written in one exchange may meet the number of an event before the guard."""
    seq = world.seq
    command.decide(world)
    await link.begin()
    with pytest.raises(Exception) as refused:  # noqa: PT011
        await write_changes(link, world, loaded_seq=seq)
    assert is_conflict(refused.value)
    await link.rollback()
    return refused.value


@pytest.mark.proves("R2.2")
@pytest.mark.parametrize(
    ("column", "value"),
    [("status", RunStatus.CANCELLING.value), ("token", "another's"), ("revision", 1000)],
    ids=str,
)
async def test_a_row_that_has_changed_is_not_written(
    store: SqlStore, place: Place, clock: FakeClock, column: str, value: str | int
) -> None:
    """One column differs, and no other: so each guard is seen to hold by itself."""
    one = await running(store)
    command = SaveProgress(claim_of(one), document({"n": 1}))
    async with linked(store, place) as link:
        world = await load_and_let_go(link, command, clock)
        await link.begin()
        await link.write(Update(runs, (column,), ("id",)), [(value, one.run_id)])
        await link.commit()
        before = await read_all(store)
        refused = await write_stale(link, command, world)
    assert refused.args[0].table is runs
    assert await read_all(store) == before


@pytest.mark.proves("R2.2")
async def test_a_run_that_others_have_ended_is_not_ended_again(
    store: SqlStore, place: Place, clock: FakeClock
) -> None:
    one = await running(store)
    command = Complete(claim_of(one), document("stale"))
    async with linked(store, place) as link:
        world = await load_and_let_go(link, command, clock)
        await store.apply(RequestCancel(run_id=one.run_id))
        before = await read_all(store)
        await write_stale(link, command, world)
    assert await read_all(store) == before
    assert await status(store, one.run_id) is RunStatus.CANCELLING


@pytest.mark.proves("I13")
async def test_a_number_of_the_stream_is_not_given_twice(
    store: SqlStore, place: Place, clock: FakeClock
) -> None:
    """Also when the rows themselves have not changed: the counter is a guard too."""
    one = await running(store)
    command = SaveProgress(claim_of(one), document({"n": 1}))
    async with linked(store, place) as link:
        world = await load_and_let_go(link, command, clock)
        await link.begin()
        await link.write(Update(stream, ("seq",), ("id",)), [(world.seq + 5, 1)])
        await link.commit()
        refused = await write_stale(link, command, world)
    assert refused.args[0].table is stream


@pytest.mark.proves("R2.2")
async def test_a_batch_that_fails_its_guard_is_decided_anew(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Nobody but the writer notices: each caller is answered by what really was."""
    for number in range(20):
        key = f"key-{number}"
        first, second = await asyncio.gather(
            store.apply(a_submit(key, on_conflict=OnConflict.ENQUEUE)),
            another_store.apply(a_submit(key, on_conflict=OnConflict.ENQUEUE)),
        )
        assert isinstance(first, Accepted)
        assert isinstance(second, Accepted)
        states = [await state(store, answer.run_id) for answer in (first, second)]
        head, behind = sorted(states, key=lambda run: run.seq)
        assert (head.head_key, behind.waiting_key) == (key, key)


@pytest.mark.proves("I13")
@pytest.mark.parametrize("backend", SERVERS, indirect=True)
async def test_the_counter_is_locked_from_the_decision_to_the_commit(
    store: SqlStore, place: Place, clock: FakeClock
) -> None:
    """Another writer waits for it, and then counts on: nobody decides on a number that is taken."""
    command = a_submit("ann")
    async with linked(store, place) as link:
        await link.begin()
        world = await load(link, command, clock)
        seq = world.seq
        other = asyncio.ensure_future(store.apply(a_submit("bob")))
        while not other.done() and not await somebody_waits(store._database):
            pass
        assert not other.done()
        mine = command.decide(world)
        await write_changes(link, world, loaded_seq=seq)
        await link.commit()
        theirs = await other
    assert mine == Accepted(command.run_id, seq + 1)
    assert isinstance(theirs, Accepted)
    assert theirs.seq == seq + 2
    assert store.writer.conflict_count == 0


async def somebody_waits(database: Database) -> bool:
    """Whether some transaction of this server stands before a lock."""
    question = {
        "postgres": "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
        "mysql": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
    }[database.driver]
    async with database.open_session() as session:
        ((*_, count),) = await session.exec_driver_sql(question)
        return int(count) > 0


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize("backend", ["sqlite-file"], indirect=True)
async def test_nobody_else_writes_from_begin_to_commit(
    store: SqlStore, place: Place, clock: FakeClock
) -> None:
    """Not even a program that knows nothing of our gate: what was read is still true when written.

    A transaction that only took the lock with its first write would decide on what it read before,
    and find "database is locked" when it comes to write.
    """
    (url,) = place.urls
    stranger = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)
    try:
        async with linked(store, place) as link:
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
    await submitted(store)


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["postgres", "mariadb"], indirect=True)
async def test_batches_that_lock_the_same_lanes_never_wait_for_each_other_in_a_circle(
    store: SqlStore, another_store: SqlStore
) -> None:
    """Every batch locks lanes in the order of their names, so that no deadlock is possible."""
    names = [LaneName(f"lane-{number}") for number in range(300)]

    async def set_all(writer: SqlStore) -> None:
        for limit in range(1, 16):
            changes = [SetLane(name=name, max_concurrent=limit) for name in names]
            await asyncio.gather(*(writer.apply(change) for change in changes))

    await asyncio.gather(*(store.apply(SetLane(name=name, is_paused=False)) for name in names))
    await asyncio.gather(set_all(store), set_all(another_store))
    assert (store.conflict_count, another_store.conflict_count) == (0, 0)
