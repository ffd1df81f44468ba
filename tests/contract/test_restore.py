"""Readers detect that a restored database has another history (I14)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.tables import metadata
from headway.core.run.events import Event
from headway.services.upkeep.event_feed import EventFeed
from headway.testing import FakeClock
from tests.contract.backends import read_all
from tests.contract.scenes import submit_run


async def restore(store: SqlStore, backup: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Write back the rows that `read_all` has read, as a restored dump does."""
    async with store._database.open_session() as connection:
        for table in metadata.sorted_tables:
            if table.name not in backup:
                continue
            await connection.execute(sa.delete(table))
            names = [column.name for column in table.c]
            rows = [dict(zip(names, row, strict=True)) for row in backup[table.name]]
            if rows:
                await connection.execute(sa.insert(table), rows)
        await connection.commit()


def pack(event: Event) -> str:
    return event.payload


@pytest.mark.proves("I14")
async def test_only_a_reader_whose_last_event_was_lost_finds_a_gap_after_a_restore(
    store: SqlStore, clock: FakeClock
) -> None:
    async def add(prefix: str, count: int) -> None:
        for number in range(count):
            clock.advance(1)
            await submit_run(store, f"{prefix}-{number}")

    await add("kept", 3)
    backup = await read_all(store)
    await add("lost", 3)
    lost_at = (await store.events.events(after_seq=5, limit=0)).after_seq_written_at
    clock.advance(60)
    await restore(store, backup)
    await add("new", 5)
    async with EventFeed(store, store.events, pack=pack) as feed:
        kept_at = await feed.time_of(3)
        assert lost_at != await feed.time_of(5)
        assert (await feed.read(5, at=lost_at)).is_gap
        batch = await feed.read(3, at=kept_at)
        assert not batch.is_gap
        assert [entry.event.seq for entry in batch.entries] == [4, 5, 6, 7, 8]


@pytest.mark.proves("I14")
async def test_server_that_runs_through_a_restore_notifies_its_watchers(
    store: SqlStore, clock: FakeClock
) -> None:
    await submit_run(store, "kept")
    backup = await read_all(store)
    clock.advance(1)
    await submit_run(store, "lost")
    async with EventFeed(store, store.events, pack=pack) as feed:
        before = feed.history_count
        clock.advance(60)
        await restore(store, backup)
        await submit_run(store, "new")
        await submit_run(store, "newer")
        while feed.history_count == before:
            await feed.wait(feed.last_seq, timeout_s=1)
