"""What decides whether runs that are over may be pruned, besides their own rows and the heads."""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from headway.adapters.sql.statements import Query, in_list, integer_param, text_param
from headway.adapters.sql.tables import runs
from headway.adapters.sql.write.links.driver_link import Link
from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.ids import Key, RunId
from headway.core.run.run import Run

_SEQ_MAX: Final = (1 << 63) - 1
_NEWEST_STARTED_OTHER: Final = Query(
    sa.select(runs.c.key, runs.c.seq)
    .where(
        runs.c.key == text_param("key"),
        runs.c.seq < integer_param("before_seq"),
        runs.c.started_at.is_not(None),
        sa.not_(in_list(runs.c.id, "ids")),
    )
    .order_by(runs.c.seq.desc())
    .limit(sa.literal_column("1"))
)
_ACTIVE_IDS: Final = Query(
    sa.select(runs.c.id).where(in_list(runs.c.id, "ids"), runs.c.ended_at.is_(None))
)


async def load_for_pruning(link: Link, needs: RowsNeeded, world: BatchState) -> None:
    """Asked once the heads of their keys are locked: nobody else can start a run of these."""
    found = [run for run_id in needs.pruned_ids if (run := world.run(run_id)) is not None]
    await _load_started_others(link, needs, world, found)
    parent_ids = {run.parent_id for run in found} - {None}
    if parent_ids:
        active = await link.fetch(_ACTIVE_IDS, {"ids": list(parent_ids)})
        world.active_unlocked_ids = {run_id for (run_id,) in active}


async def _load_started_others(
    link: Link, needs: RowsNeeded, world: BatchState, pruned: Sequence[Run]
) -> None:
    ids: dict[Key, list[RunId]] = {}
    for run in pruned:
        # A key that is free, and stays so in this batch, keeps none.
        if run.key in world.head_run_ids or run.key in needs.head_keys:
            ids.setdefault(run.key, []).append(run.id)
    wanted: list[dict[str, Any]] = []
    for key, listed in ids.items():
        head = world.head_run(key)
        if head is None:
            wanted.append({"key": key, "before_seq": _SEQ_MAX, "ids": listed})
        elif head.started_at is None:  # None of those that wait behind it has started either.
            wanted.append({"key": key, "before_seq": head.seq, "ids": listed})
    for key, seq in await link.fetch_each(_NEWEST_STARTED_OTHER, wanted) if wanted else ():
        world.other_started_seqs[key] = seq
