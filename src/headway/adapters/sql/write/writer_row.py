"""The row of a writer: which of its batches landed last, and when it was last there.

Written in every batch before COMMIT is sent, so that after a lost answer whoever locks the row
waits until the commit that is still under way over there has ended.
"""

from functools import lru_cache
from typing import Final

import sqlalchemy as sa

from headway.adapters.sql.connect.database_clock import machine_now
from headway.adapters.sql.statements import Delete, Insert, Planned, Query, Update
from headway.adapters.sql.tables import writers
from headway.adapters.sql.write.links.driver_link import Link
from headway.core.ids import Instant, later

FORGOTTEN_AFTER_S: Final = 86_400.0
"""A writer that lives and was silent for longer makes its row again."""
GONE_COUNT_MAX: Final = 100
OWN_ROW: Final = Update(writers, ("batch", "seen_at"), ("id",))
_GONE: Final = Query(
    sa.select(writers.c.id, writers.c.seen_at)
    .where(writers.c.seen_at < sa.bindparam("before", type_=sa.BigInteger()))
    .limit(GONE_COUNT_MAX)
)


async def lock_own_row(link: Link, writer_id: str, *, number: int) -> tuple[int, Instant]:
    """The number of the last batch that landed, and what time it is there.

    A writer that is new here, or so long silent that it was forgotten, gets a row with `number`.
    """
    query = _own_row(link.now_sql)
    rows = await link.fetch(query, {"id": writer_id})
    if not rows:
        await link.write(Insert(writers, ("id", "batch", "seen_at")), [(writer_id, number, 0)])
        rows = await link.fetch(query, {"id": writer_id})
    ((landed_number, now),) = rows
    return landed_number, machine_now() if now is None else now


def own_row(writer_id: str, *, number: int, now: Instant) -> Planned:
    return Planned(OWN_ROW, [(number, now, writer_id)])


async def remove_own_row(link: Link, writer_id: str) -> None:
    await link.write(Delete(writers, ("id",)), [(writer_id,)])


async def forget_the_gone(link: Link, *, now: Instant) -> None:
    """Remove the rows that killed processes have left behind long ago."""
    before = later(now, seconds=-FORGOTTEN_AFTER_S)
    gone = await link.fetch(_GONE, {"before": before})
    if gone:
        await link.write(Delete(writers, ("id", "seen_at")), [tuple(row) for row in gone])


@lru_cache
def _own_row(now_sql: str | None) -> Query:
    now = sa.null() if now_sql is None else sa.literal_column(now_sql)
    return Query(
        sa.select(writers.c.batch, now)
        .where(writers.c.id == sa.bindparam("id", type_=sa.String()))
        .with_for_update()
    )
