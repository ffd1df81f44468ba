"""The row of a writer: the number of its last committed batch, and when it last wrote.

Each batch updates the row before it sends COMMIT. If the answer to COMMIT is lost, the writer locks
the row on a new connection. The lock waits until a commit that is still in flight has ended, and
the number then shows whether the batch was committed.

See docs/internals/writer.md.
"""

from functools import lru_cache
from typing import Final

import sqlalchemy as sa

from headway.adapters.sql.connect.database_clock import machine_now
from headway.adapters.sql.statements import Delete, Insert, PlannedWrite, Query, Update
from headway.adapters.sql.tables import writers
from headway.adapters.sql.write.links.driver_link import Link
from headway.core.ids import Instant, add_seconds

STALE_AFTER_S: Final = 86_400.0
"""Rows older than this are removed. A live writer whose row was removed re-creates it."""
STALE_COUNT_MAX: Final = 100
UPDATE_WRITER_ROW: Final = Update(writers, ("batch", "seen_at"), ("id",))
_STALE_WRITERS: Final = Query(
    sa.select(writers.c.id, writers.c.seen_at)
    .where(writers.c.seen_at < sa.bindparam("before", type_=sa.BigInteger()))
    .limit(STALE_COUNT_MAX)
)


async def lock_writer_row(link: Link, writer_id: str, *, batch_number: int) -> tuple[int, Instant]:
    """Lock the writer's row. Return the number of its last batch and the database's time.

    If there is no row, because the writer is new or its row was removed as stale, a row with
    `batch_number` is inserted.
    """
    query = _writer_row_query(link.now_sql)
    rows = await link.fetch(query, {"id": writer_id})
    if not rows:
        await link.write(
            Insert(writers, ("id", "batch", "seen_at")), [(writer_id, batch_number, 0)]
        )
        rows = await link.fetch(query, {"id": writer_id})
    ((committed_number, now),) = rows
    return committed_number, machine_now() if now is None else now


def plan_writer_row(writer_id: str, *, batch_number: int, now: Instant) -> PlannedWrite:
    return PlannedWrite(UPDATE_WRITER_ROW, [(batch_number, now, writer_id)])


async def remove_writer_row(link: Link, writer_id: str) -> None:
    await link.write(Delete(writers, ("id",)), [(writer_id,)])


async def remove_stale_writers(link: Link, *, now: Instant) -> None:
    """Remove writer rows older than STALE_AFTER_S. Killed processes leave such rows."""
    before = add_seconds(now, seconds=-STALE_AFTER_S)
    stale = await link.fetch(_STALE_WRITERS, {"before": before})
    if stale:
        await link.write(Delete(writers, ("id", "seen_at")), [tuple(row) for row in stale])


@lru_cache
def _writer_row_query(now_sql: str | None) -> Query:
    now = sa.null() if now_sql is None else sa.literal_column(now_sql)
    return Query(
        sa.select(writers.c.batch, now)
        .where(writers.c.id == sa.bindparam("id", type_=sa.String()))
        .with_for_update()
    )
