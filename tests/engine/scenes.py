"""Helpers for tests of the engine: a gauge of working jobs, and reads of run records."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.app import Headway
from headway.core.run.run import RunRecord
from headway.ports.run_reader import RunFilter


class Gauge:
    """Counts the working jobs: the current count, the peak, and the order of their starts."""

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

    async def wait_for_count(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.count == count)

    async def _change(self, delta: int, *, begun: Sequence[str] = ()) -> None:
        async with self._changed:
            self.count += delta
            self.peak = max(self.peak, self.count)
            self.begun += begun
            self._changed.notify_all()


async def records(store: SqlStore) -> list[RunRecord]:
    """Return all runs in the order of their acceptance."""
    return list(
        reversed([record async for record in store.runs.list_runs(RunFilter(), limit=1_000)])
    )


async def records_of(hw: Headway) -> list[RunRecord]:
    return await records(hw.store)


@asynccontextmanager
async def open_bare_store(url: str) -> AsyncIterator[SqlStore]:
    """Open the store without an engine, as another process would read it."""
    store = await open_store([url])
    try:
        yield store
    finally:
        await store.close()
