"""Read the recent keys: see `headway.core.run.recent`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.tables import runs
from headway.core.ids import Key
from headway.core.run import recent
from headway.core.run.recent import RecentKey, recent_after_seq
from headway.core.run.status import RunStatus

CHUNK_COUNT: Final = 1_000
CHUNK_COUNT_MAX: Final = 16_000
_NEWEST: Final = (
    sa.select(runs.c.seq, runs.c.key, runs.c.status, runs.c.started_at)
    .where(
        runs.c.seq > sa.bindparam("after_seq", type_=sa.BigInteger()),
        runs.c.seq < sa.bindparam("before_seq", type_=sa.BigInteger()),
    )
    .order_by(runs.c.seq.desc())
)
_NEWEST_OF_KEY: Final = runs.alias("newest")
_OF_SAME_KEY: Final = runs.alias("of_same_key")
_LAST_BEGUN: Final = (
    sa.select(_OF_SAME_KEY.c.seq)
    .where(_OF_SAME_KEY.c.key == _NEWEST_OF_KEY.c.key, _OF_SAME_KEY.c.started_at.is_not(None))
    .order_by(_OF_SAME_KEY.c.seq.desc())
    .limit(sa.literal_column("1"))
    .correlate(_NEWEST_OF_KEY)
)


class RecentKeys(NamedTuple):
    keys: Sequence[RecentKey]
    """The newest first."""
    has_older: bool
    """There are runs beyond, whose keys may not be listed."""
    last_seqs: Sequence[int]
    """Of each key the newest run that was not refused, and the newest that began."""


async def read_recent(connection: AsyncConnection, *, seq: int) -> RecentKeys:
    """Read runs from the newest on, until there are enough keys or the far end is reached."""
    found: dict[Key, int] = {}
    unbegun: list[int] = []
    after_seq, before_seq, count = recent_after_seq(seq), seq + 1, CHUNK_COUNT
    is_full = is_end = False
    while not (is_full or is_end):
        limits = {"after_seq": after_seq, "before_seq": before_seq}
        rows = (await connection.execute(_NEWEST.limit(count), limits)).all()
        for row in rows:
            before_seq = row.seq
            if row.status != RunStatus.REJECTED.value and row.key not in found:
                found[row.key] = row.seq
                if row.started_at is None:
                    unbegun.append(row.seq)
                is_full = len(found) == recent.KEY_COUNT_MAX
                if is_full:
                    break
        is_end = len(rows) < count
        count = min(4 * count, CHUNK_COUNT_MAX)
    older = sa.select(runs.c.seq).where(runs.c.seq < before_seq).limit(1)
    return RecentKeys(
        [RecentKey(key, newest_seq) for key, newest_seq in found.items()],
        (await connection.scalar(older)) is not None,
        [*found.values(), *await _begun_before(connection, unbegun)],
    )


async def _begun_before(connection: AsyncConnection, unbegun: Sequence[int]) -> list[int]:
    """Return the newest run that began of each key whose newest run has not begun."""
    if not unbegun:
        return []
    query = sa.select(_LAST_BEGUN.scalar_subquery()).where(_NEWEST_OF_KEY.c.seq.in_(unbegun))
    return [seq for seq in await connection.scalars(query) if seq is not None]
