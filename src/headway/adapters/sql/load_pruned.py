"""What decides whether runs that are over may be pruned, besides their own rows and the heads."""

from typing import Final

import sqlalchemy as sa

from headway.adapters.sql.links.link import Link
from headway.adapters.sql.statements import Query, in_list, text
from headway.adapters.sql.tables import runs
from headway.core.command.command import Needs
from headway.core.ids import Key, RunId
from headway.core.world import World

_STARTED_BESIDE: Final = Query(
    sa.select(runs.c.seq)
    .where(
        runs.c.key == text("key"),
        runs.c.started_at.is_not(None),
        sa.not_(in_list(runs.c.id, "ids")),
    )
    .order_by(runs.c.seq.desc())
    .limit(sa.literal_column("1"))
)
_ACTIVE_IDS: Final = Query(
    sa.select(runs.c.id).where(in_list(runs.c.id, "ids"), runs.c.ended_at.is_(None))
)


async def load_pruned(link: Link, needs: Needs, world: World) -> None:
    """Asked once the heads of their keys are locked: nobody else can start a run of these."""
    found = [run for run_id in needs.pruned_ids if (run := world.run(run_id)) is not None]
    ids: dict[Key, list[RunId]] = {}
    for run in found:
        # A key that is free, and stays so in this batch, keeps none.
        if run.key in world.heads or run.key in needs.head_keys:
            ids.setdefault(run.key, []).append(run.id)
    for key, listed in ids.items():
        for (seq,) in await link.fetch(_STARTED_BESIDE, {"key": key, "ids": listed}):
            world.started_beside[key] = seq
    parent_ids = {run.parent_id for run in found} - {None}
    if parent_ids:
        active = await link.fetch(_ACTIVE_IDS, {"ids": list(parent_ids)})
        world.active_ids = {run_id for (run_id,) in active}
