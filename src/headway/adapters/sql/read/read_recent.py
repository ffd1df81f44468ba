"""Read the recent keys, as defined in `headway.core.run.recent`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.tables import runs
from headway.core.ids import Key
from headway.core.run import recent
from headway.core.run.recent import RecentKey, recent_after_seq
from headway.core.run.status import RunStatus

NEWEST_RUN_COUNT: Final = 1_000
_NEWEST: Final = (
    sa.select(runs.c.seq, runs.c.key, runs.c.status)
    .where(
        runs.c.seq > sa.bindparam("after_seq", type_=sa.BigInteger()),
        runs.c.seq < sa.bindparam("before_seq", type_=sa.BigInteger()),
    )
    .order_by(runs.c.seq.desc())
)
# Used if a few busy keys have most of the newest runs: the database groups them.
_NEWEST_BY_KEY: Final = (
    sa.select(sa.func.max(runs.c.seq).label("seq"), runs.c.key)
    .where(
        runs.c.seq > sa.bindparam("after_seq", type_=sa.BigInteger()),
        runs.c.seq < sa.bindparam("before_seq", type_=sa.BigInteger()),
        runs.c.status != RunStatus.REJECTED.value,
    )
    .group_by(runs.c.key)
    .order_by(sa.desc("seq"))
)
_NEWEST_OF_KEY: Final = runs.alias("newest")
_OF_SAME_KEY: Final = runs.alias("of_same_key")
_LAST_STARTED: Final = (
    sa.select(_OF_SAME_KEY.c.seq)
    .where(_OF_SAME_KEY.c.key == _NEWEST_OF_KEY.c.key, _OF_SAME_KEY.c.started_at.is_not(None))
    .order_by(_OF_SAME_KEY.c.seq.desc())
    .limit(sa.literal_column("1"))
    .correlate(_NEWEST_OF_KEY)
)


class RecentKeys(NamedTuple):
    keys: Sequence[RecentKey]
    """The recent keys, the newest first."""
    has_older: bool
    """True if there are older runs. Their keys may be missing from `keys`."""
    last_seqs: Sequence[int]
    """For each key, the `seq` of its newest run not rejected and of its newest started run."""


async def read_recent(connection: AsyncConnection, *, seq: int) -> RecentKeys:
    """Return the recent keys of a stream whose last event is `seq`.

    Older runs are read only if the newest runs have too few different keys.
    """
    seq_by_key: dict[Key, int] = {}
    limits = {"after_seq": recent_after_seq(seq), "before_seq": seq + 1}
    newest = (await connection.execute(_NEWEST.limit(NEWEST_RUN_COUNT), limits)).all()
    for row in newest:
        if row.status != RunStatus.REJECTED.value:
            seq_by_key.setdefault(row.key, row.seq)
    if len(seq_by_key) < recent.KEY_COUNT_MAX and len(newest) == NEWEST_RUN_COUNT:
        limits["before_seq"] = newest[-1].seq
        grouped = _NEWEST_BY_KEY.limit(recent.KEY_COUNT_MAX)
        for older_run in await connection.execute(grouped, limits):
            seq_by_key.setdefault(older_run.key, older_run.seq)
    keys = [RecentKey(*item) for item in seq_by_key.items()][: recent.KEY_COUNT_MAX]
    is_full = len(keys) == recent.KEY_COUNT_MAX
    first_seq = keys[-1].seq if is_full else limits["after_seq"] + 1
    older = sa.select(runs.c.seq).where(runs.c.seq < first_seq).limit(1)
    seqs = [recent_key.seq for recent_key in keys]
    return RecentKeys(
        keys,
        (await connection.scalar(older)) is not None,
        list(dict.fromkeys([*seqs, *await _read_last_started(connection, seqs)])),
    )


async def _read_last_started(connection: AsyncConnection, seqs: Sequence[int]) -> list[int]:
    """Return the `seq` of the newest started run of each key that has a run in `seqs`."""
    query = sa.select(_LAST_STARTED.scalar_subquery()).where(_NEWEST_OF_KEY.c.seq.in_(seqs))
    return [seq for seq in await connection.scalars(query) if seq is not None]
