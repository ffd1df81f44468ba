"""Waiters for runs of other processes share one poll; each wakes for its own run (I8)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import pytest

from headway import Headway, RunContext, RunHandle
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.report import SaveProgress
from headway.core.command.run.settle import Complete
from headway.core.document import Document
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import RunId
from headway.core.run.status import RunStatus
from headway.ports.run_reader import WatchedRun
from headway.services.submit import run_watcher
from headway.services.submit.run_watcher import RunWatcher
from headway.testing import claim_of
from tests.contract.scenes import claim_run, register_instance, submit_run
from tests.engine.scenes import open_bare_store
from tests.runtime.scenes import until

COUNT = 20

pytestmark = pytest.mark.backend("sqlite")


class Reads:
    """Counts the reads of runs, and can make the shared poll fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.single_reads: Counter[RunId] = Counter()
        self.polls: list[Collection[RunId]] = []
        self.is_unavailable = False
        run, watched_runs = SqlRunReader.run, SqlRunReader.watched_runs

        async def counted_run(reader: SqlRunReader, run_id: RunId) -> Any:
            self.single_reads[run_id] += 1
            return await run(reader, run_id)

        async def counted_many(
            reader: SqlRunReader, run_ids: Collection[RunId]
        ) -> Mapping[RunId, WatchedRun]:
            self.polls.append(run_ids)
            if self.is_unavailable:
                raise DatabaseUnavailable({})
            return await watched_runs(reader, run_ids)

        monkeypatch.setattr(SqlRunReader, "run", counted_run)
        monkeypatch.setattr(SqlRunReader, "watched_runs", counted_many)
        monkeypatch.setattr(run_watcher, "POLL_S", 0.01)

    @property
    def newest_poll(self) -> Collection[RunId]:
        return self.polls[-1] if self.polls else ()

    async def wait_for_polls(self) -> None:
        expected_count = len(self.polls) + 5
        await until(lambda: len(self.polls) >= expected_count, what="they were polled a few times")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
async def there(url: str) -> AsyncIterator[SqlStore]:
    """Open another process's store; SQLite sends no hints of its commits."""
    async with open_bare_store(url) as store:
        yield store


@pytest.fixture
async def here(url: str, there: SqlStore) -> AsyncIterator[SqlStore]:
    async with open_bare_store(url) as store:
        yield store


def handles(store: SqlStore, run_ids: list[RunId]) -> list[RunHandle]:
    watcher = RunWatcher(store, store.runs)
    return [
        RunHandle(run_id, store=store, runs=store.runs, events=store.events, watcher=watcher)
        for run_id in run_ids
    ]


@pytest.mark.proves("I8")
async def test_many_waiters_share_one_poll_and_each_wakes_for_its_own_run(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_ids = [await submit_run(there, f"key-{number}") for number in range(COUNT)]
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(run.wait_for_end()) for run in handles(here, run_ids)]
        await reads.wait_for_polls()
        assert reads.single_reads == dict.fromkeys(run_ids, 1)
        assert set(reads.polls[-1]) == set(run_ids)
        await there.apply(RequestCancel(run_id=run_ids[0]))
        assert (await waits[0]).run.status is RunStatus.CANCELED
        assert reads.single_reads == dict.fromkeys(run_ids, 1) | {run_ids[0]: 2}
        for run_id in run_ids[1:]:
            await there.apply(RequestCancel(run_id=run_id))
    assert {wait.result().run.status for wait in waits} == {RunStatus.CANCELED}


@pytest.mark.proves("I8")
async def test_two_waiters_for_one_run_both_wake(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_id = await submit_run(there)
    (run,) = handles(here, [run_id])
    async with asyncio.TaskGroup() as group:
        first = group.create_task(run.wait_for_end())
        await reads.wait_for_polls()
        second = group.create_task(run.wait_for_end())
        await reads.wait_for_polls()
        assert reads.single_reads[run_id] == 2
        await there.apply(RequestCancel(run_id=run_id))
    assert first.result().run.status is second.result().run.status is RunStatus.CANCELED


@pytest.mark.proves("I8")
@pytest.mark.parametrize("awaited", ["end", "events"])
async def test_a_change_during_a_read_is_not_missed(
    here: SqlStore, monkeypatch: pytest.MonkeyPatch, awaited: str
) -> None:
    """The run ends after it was read and before the reader resumes; no other hint follows."""
    monkeypatch.setattr(run_watcher, "POLL_S", 3_600)
    run_id = await submit_run(here)
    (run,) = handles(here, [run_id])
    read = SqlRunReader.run

    async def read_and_end(reader: SqlRunReader, run_id: RunId) -> Any:
        record = await read(reader, run_id)
        await here.apply(RequestCancel(run_id=run_id))
        await asyncio.sleep(0)  # The listener is notified before the reader resumes.
        return record

    monkeypatch.setattr(SqlRunReader, "run", read_and_end)
    async with asyncio.timeout(20):
        if awaited == "end":
            assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
        else:
            assert [event.run_seq async for event in run.events()] == [1, 2]


@pytest.mark.proves("I8")
async def test_a_waiter_for_the_end_of_a_run_is_woken_only_when_the_run_ends(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_id = await submit_run(there)
    (run,) = handles(here, [run_id])
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(run.wait_for_end())
        await reads.wait_for_polls()
        claimed = await claim_run(there, await register_instance(there))
        await reads.wait_for_polls()  # Found by the poll: the run has started.
        await here.apply(SaveProgress(claim_of(claimed), Document('{"done":1}')))
        await reads.wait_for_polls()  # Found by the listener: the run has another event.
        assert reads.single_reads[run_id] == 1
        await there.apply(Complete(claim_of(claimed)))
    assert wait.result().run.status is RunStatus.SUCCEEDED
    assert reads.single_reads[run_id] == 2


@pytest.mark.proves("I8")
async def test_waits_for_children_share_the_poll_of_the_process(url: str, reads: Reads) -> None:
    """Children in a paused lane are cancelled by another process, which sends no hints."""
    hw = Headway(url)

    @hw.job(lane="paused")
    async def child(ctx: RunContext, number: int) -> None: ...

    @hw.job()
    async def parent(ctx: RunContext) -> list[RunStatus]:
        children = [await ctx.start(child, params={"number": number}) for number in range(3)]
        await asyncio.gather(*(run.result() for run in children), return_exceptions=True)
        return [await run.status() for run in children]

    async with hw, open_bare_store(url) as elsewhere:
        await hw.lanes.set("paused", is_paused=True)
        parents = [await hw.start(parent) for _ in range(3)]
        waits = [asyncio.create_task(run.result()) for run in parents]
        await until(lambda: len(reads.newest_poll) == 12, what="all children are awaited")
        await reads.wait_for_polls()
        count = reads.single_reads.total()
        await reads.wait_for_polls()
        assert reads.single_reads.total() == count
        child_ids = set(reads.polls[-1]) - {run.id for run in parents}
        for run_id in child_ids:
            await elsewhere.apply(RequestCancel(run_id=run_id))
        assert await asyncio.gather(*waits) == [[RunStatus.CANCELED] * 3] * 3


@pytest.mark.proves("I8")
async def test_there_are_no_polls_without_waiters(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_id = await submit_run(there)
    (run,) = handles(here, [run_id])
    with pytest.raises(TimeoutError):
        await run.result(timeout_s=0.1)
    count = len(reads.polls)
    assert count > 0
    await asyncio.sleep(0.05)
    assert len(reads.polls) == count
    # A later waiter is polled for again.
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(run.wait_for_end())
        await reads.wait_for_polls()
        await there.apply(RequestCancel(run_id=run_id))
    assert wait.result().run.status is RunStatus.CANCELED


@pytest.mark.proves("I20")
async def test_each_waiter_reads_its_own_run_while_the_shared_poll_fails(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_id = await submit_run(there)
    (run,) = handles(here, [run_id])
    reads.is_unavailable = True
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(run.wait_for_end())
        await reads.wait_for_polls()
        assert reads.single_reads[run_id] > 1
        await there.apply(RequestCancel(run_id=run_id))
    assert wait.result().run.status is RunStatus.CANCELED
