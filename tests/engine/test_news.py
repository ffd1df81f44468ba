"""Those who wait for runs of other processes share one look, and each wakes for its own (I8)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import pytest

from headway import RunHandle
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.run.cancel import RequestCancel
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import RunId
from headway.core.run.status import RunStatus
from headway.services.submit import run_watcher as news
from headway.services.submit.run_watcher import RunWatcher
from tests.contract.scenes import submitted
from tests.engine.scenes import looked_at
from tests.runtime.scenes import until

COUNT = 20

pytestmark = pytest.mark.backend("sqlite")


class Reads:
    """What is asked of the database, and whether it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of_one: Counter[RunId] = Counter()
        self.of_many: list[Collection[RunId]] = []
        self.is_away = False
        run, run_seqs = SqlRunReader.run, SqlRunReader.run_seqs

        async def counted_run(reader: SqlRunReader, run_id: RunId) -> Any:
            self.of_one[run_id] += 1
            return await run(reader, run_id)

        async def counted_many(
            reader: SqlRunReader, run_ids: Collection[RunId]
        ) -> Mapping[RunId, int]:
            self.of_many.append(run_ids)
            if self.is_away:
                raise DatabaseUnavailable({})
            return await run_seqs(reader, run_ids)

        monkeypatch.setattr(SqlRunReader, "run", counted_run)
        monkeypatch.setattr(SqlRunReader, "run_seqs", counted_many)
        monkeypatch.setattr(news, "POLL_S", 0.01)

    async def a_few_looks(self) -> None:
        wanted = len(self.of_many) + 5
        await until(lambda: len(self.of_many) >= wanted, what="they were looked at a few times")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
async def there(url: str) -> AsyncIterator[SqlStore]:
    """Another process, which SQLite tells nobody of."""
    async with looked_at(url) as store:
        yield store


@pytest.fixture
async def here(url: str, there: SqlStore) -> AsyncIterator[SqlStore]:
    async with looked_at(url) as store:
        yield store


def handles(store: SqlStore, run_ids: list[RunId]) -> list[RunHandle]:
    shared = RunWatcher(store, store.runs)
    return [
        RunHandle(run_id, store=store, runs=store.runs, events=store.events, watcher=shared)
        for run_id in run_ids
    ]


@pytest.mark.proves("I8")
async def test_many_who_wait_share_one_look_and_each_wakes_for_its_own(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_ids = [await submitted(there, f"key-{number}") for number in range(COUNT)]
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(run.wait_for_end()) for run in handles(here, run_ids)]
        await reads.a_few_looks()
        assert reads.of_one == dict.fromkeys(run_ids, 1)
        assert set(reads.of_many[-1]) == set(run_ids)
        await there.apply(RequestCancel(run_id=run_ids[0]))
        assert (await waits[0]).run.status is RunStatus.CANCELED
        assert reads.of_one == dict.fromkeys(run_ids, 1) | {run_ids[0]: 2}
        for run_id in run_ids[1:]:
            await there.apply(RequestCancel(run_id=run_id))
    assert {wait.result().run.status for wait in waits} == {RunStatus.CANCELED}


@pytest.mark.proves("I8")
async def test_two_who_wait_for_one_run_both_wake(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_id = await submitted(there)
    (run,) = handles(here, [run_id])
    async with asyncio.TaskGroup() as group:
        first = group.create_task(run.wait_for_end())
        await reads.a_few_looks()
        second = group.create_task(run.wait_for_end())
        await reads.a_few_looks()
        assert reads.of_one[run_id] == 2
        await there.apply(RequestCancel(run_id=run_id))
    assert first.result().run.status is second.result().run.status is RunStatus.CANCELED


@pytest.mark.proves("I8")
async def test_what_happens_during_a_look_is_not_missed(
    here: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends after the look has read it, and before it is heard: nobody tells it again."""
    monkeypatch.setattr(news, "POLL_S", 3_600)
    run_id = await submitted(here)
    (run,) = handles(here, [run_id])
    read = SqlRunReader.run

    async def read_and_end(reader: SqlRunReader, wanted: RunId) -> Any:
        record = await read(reader, wanted)
        await here.apply(RequestCancel(run_id=wanted))
        await asyncio.sleep(0)  # Who listens hears of it before the reader does.
        return record

    monkeypatch.setattr(SqlRunReader, "run", read_and_end)
    async with asyncio.timeout(20):
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I8")
async def test_nobody_looks_when_nobody_waits(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_id = await submitted(there)
    (run,) = handles(here, [run_id])
    with pytest.raises(TimeoutError):
        await run.result(timeout_s=0.1)
    count = len(reads.of_many)
    assert count > 0
    await asyncio.sleep(0.05)
    assert len(reads.of_many) == count
    # And again for who comes later.
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(run.wait_for_end())
        await reads.a_few_looks()
        await there.apply(RequestCancel(run_id=run_id))
    assert wait.result().run.status is RunStatus.CANCELED


@pytest.mark.proves("I20")
async def test_a_look_that_fails_leaves_it_to_each(
    here: SqlStore, there: SqlStore, reads: Reads
) -> None:
    run_id = await submitted(there)
    (run,) = handles(here, [run_id])
    reads.is_away = True
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(run.wait_for_end())
        await reads.a_few_looks()
        assert reads.of_one[run_id] > 1
        await there.apply(RequestCancel(run_id=run_id))
    assert wait.result().run.status is RunStatus.CANCELED
