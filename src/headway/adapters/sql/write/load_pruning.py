"""Load the rows that decide whether ended runs may be pruned.

The runs themselves and the heads of their keys are loaded before, by `load.py`.
"""

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


async def load_for_pruning(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    """Load the newest started runs and the active parents that decide what may be pruned.

    For the keys of the runs to prune, load the newest started run that this batch does not prune.
    Also load which parents of the runs to prune are active. Called once the heads of the keys are
    locked, so that no other batch can start a run of these keys.
    """
    pruned = [run for run_id in needed.pruned_ids if (run := batch.run(run_id)) is not None]
    await _load_started_others(link, needed, batch, pruned)
    parent_ids = {run.parent_id for run in pruned} - {None}
    if parent_ids:
        active = await link.fetch(_ACTIVE_IDS, {"ids": list(parent_ids)})
        batch.active_unlocked_ids = {run_id for (run_id,) in active}


async def _load_started_others(
    link: Link, needed: RowsNeeded, batch: BatchState, pruned: Sequence[Run]
) -> None:
    ids: dict[Key, list[RunId]] = {}
    for run in pruned:
        # A key that has no head, and gets none in this batch, does not protect its runs.
        if run.key in batch.head_run_ids or run.key in needed.head_keys:
            ids.setdefault(run.key, []).append(run.id)
    parameters: list[dict[str, Any]] = []
    for key, pruned_ids in ids.items():
        head = batch.head_run(key)
        if head is None:
            parameters.append({"key": key, "before_seq": _SEQ_MAX, "ids": pruned_ids})
        elif head.started_at is None:  # The runs behind it have not started either.
            parameters.append({"key": key, "before_seq": head.seq, "ids": pruned_ids})
    for key, seq in await link.fetch_each(_NEWEST_STARTED_OTHER, parameters) if parameters else ():
        batch.other_started_seqs[key] = seq
