"""What the tests of the engine have in common: a count of what runs, and a look at the records."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.app import Headway
from headway.core.run.run import RunRecord
from headway.ports.run_reader import RunFilter


class Gauge:
    """Counts jobs from within: how many work now, how many did at most, and who began when."""

    def __init__(self) -> None:
        self.count = 0
        self.peak = 0
        self.begun: list[str] = []
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def counted(self, name: str) -> AsyncIterator[None]:
        await self._change(+1, begun=[name])
        try:
            yield
        finally:
            await self._change(-1)

    async def reaches(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.count == count)

    async def _change(self, by: int, *, begun: Sequence[str] = ()) -> None:
        async with self._changed:
            self.count += by
            self.peak = max(self.peak, self.count)
            self.begun += begun
            self._changed.notify_all()


async def records(store: SqlStore) -> list[RunRecord]:
    """All runs, in the order in which they were accepted."""
    return list(reversed([one async for one in store.runs.list_runs(RunFilter(), limit=1_000)]))


async def records_of(hw: Headway) -> list[RunRecord]:
    return await records(hw.store)


@asynccontextmanager
async def looked_at(url: str) -> AsyncIterator[SqlStore]:
    """The store alone, with no engine on it: what is there, as somebody else finds it."""
    store = await open_store([url])
    try:
        yield store
    finally:
        await store.close()
