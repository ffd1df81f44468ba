"""Lock the rows that a batch concerns, in the one order, and make a World of them.

The order: the writer's own row, instances, remembered submissions, saved keys, runs by key, those
that wait behind them, lanes by name, what may be claimed (never waiting for it), and the counter of
the stream last. Whoever holds the counter is about to write and commit.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from headway.adapters.sql.links.link import Link
from headway.adapters.sql.statements import Query, Row, in_list
from headway.adapters.sql.tables import (
    READY_RANKS,
    RUN_COLUMNS,
    inbox,
    instances,
    lanes,
    remembered,
    runs,
    saved_keys,
    stream,
)
from headway.core.command.command import ClaimNeed, Needs
from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.lane import Lane, default_lane
from headway.core.run.run import Run
from headway.core.world import (
    InboxItem,
    Instance,
    LaneQueue,
    Remembered,
    SavedKey,
    World,
)

ALL: Final = 1_000_000_000


def _integer(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.BigInteger())


def _text(name: str) -> sa.BindParameter[str]:
    return sa.bindparam(name, type_=sa.String())


# MariaDB reads all of a small table rather than look up a third of it, and would wait for the locks
# on rows that are none of its business; so the index is named.
_RUNS: Final = sa.select(*RUN_COLUMNS).order_by(runs.c.key, runs.c.seq)
_RUNS_BY_ID: Final = Query(
    _RUNS.where(in_list(runs.c.id, "ids"))
    .with_hint(runs, "FORCE INDEX (uq_runs_id)", "mysql")
    .with_for_update(),
    orders_locks=True,
)
_HEADS: Final = Query(
    _RUNS.where(in_list(runs.c.head_key, "keys"))
    .with_hint(runs, "FORCE INDEX (uq_runs_head_key)", "mysql")
    .with_for_update(),
    orders_locks=True,
)
# One statement, so that both kinds are locked in one order.
_RUNS_AND_HEADS: Final = Query(
    _RUNS.where(in_list(runs.c.id, "ids") | in_list(runs.c.head_key, "keys"))
    .with_hint(runs, "FORCE INDEX (uq_runs_id, uq_runs_head_key)", "mysql")
    .with_for_update(),
    orders_locks=True,
)
_behind: Final = runs.alias("behind")
# Asked once the heads are locked: by a statement before, one who joined meanwhile is not seen.
_HEADS_FOLLOWED: Final = Query(
    sa.select(runs.c.head_key).where(
        in_list(runs.c.head_key, "keys"),
        sa.exists().where(_behind.c.waiting_key == runs.c.head_key),
    ),
    on_mysql=sa.select(runs.c.waiting_key)
    .where(in_list(runs.c.waiting_key, "keys"))
    .group_by(runs.c.waiting_key),
)
_WAITING: Final = Query(
    sa.select(*RUN_COLUMNS)
    .where(runs.c.waiting_key == _text("key"))
    .order_by(runs.c.seq)
    .limit(_integer("count"))
    .with_for_update()
)
_LATEST: Final = Query(
    sa.select(runs.c.key, runs.c.id, runs.c.checkpoint)
    .where(runs.c.key == _text("key"), runs.c.status != sa.literal_column("'rejected'"))
    .order_by(runs.c.seq.desc())
    .limit(sa.literal_column("1"))
    .with_for_update()
)
_DOCUMENTS: Final = Query(
    sa.select(runs.c.id, runs.c.params, runs.c.checkpoint).where(in_list(runs.c.id, "ids"))
)
_INSTANCES: Final = Query(
    sa.select(*instances.c)
    .where(in_list(instances.c.id, "ids"))
    .order_by(instances.c.id)
    .with_for_update()
)
_REMEMBERED: Final = Query(
    sa.select(*remembered.c).where(in_list(remembered.c.idempotency_key, "keys"))
)
_SAVED_KEYS: Final = Query(
    sa.select(*saved_keys.c)
    .where(in_list(saved_keys.c.key, "keys"))
    .order_by(saved_keys.c.key)
    .with_for_update()
)
_INBOX: Final = Query(
    sa.select(*inbox.c)
    .where(in_list(inbox.c.run_id, "ids"), inbox.c.consumed_by.is_(None))
    .order_by(inbox.c.run_id, inbox.c.seq)
)
_LANES: Final = Query(sa.select(*lanes.c).where(in_list(lanes.c.name, "names")))
_LANES_LOCKED: Final = Query(
    sa.select(*lanes.c)
    .where(in_list(lanes.c.name, "names"))
    .order_by(lanes.c.name)
    .with_for_update()
)
_HELD: Final = Query(sa.select(sa.func.count()).where(runs.c.slot == _text("lane")))
_QUEUED: Final = Query(
    sa.select(sa.func.count()).where(
        runs.c.lane == _text("lane"),
        runs.c.queue_rank.in_([sa.literal_column("1"), sa.literal_column("2")]),
        runs.c.status == sa.literal_column("'queued'"),
    )
)
_READY: Final = Query(
    sa.select(*RUN_COLUMNS, runs.c.params, runs.c.checkpoint)
    .where(
        runs.c.lane == _text("lane"),
        runs.c.queue_rank == _integer("rank"),
        runs.c.ready_seq > _integer("after"),
        in_list(runs.c.job, "jobs"),
        runs.c.instance_id.is_(None) | (runs.c.instance_id == _text("instance_id")),
    )
    .order_by(runs.c.ready_seq)
    .limit(_integer("count"))
    .with_for_update(skip_locked=True)
)
_STREAM: Final = Query(
    sa.select(stream.c.seq, stream.c.pruned_seq)
    .where(stream.c.id == sa.literal_column("1"))
    .with_for_update()
)


async def load_world(link: Link, needs: Needs, *, now: Instant) -> World:
    world = World(now=now, seq=0)
    if needs.instance_ids:
        for row in await link.fetch(_INSTANCES, {"ids": list(needs.instance_ids)}):
            instance = Instance(*row)
            world.instances[instance.id] = instance
    if needs.idempotency_keys:
        for row in await link.fetch(_REMEMBERED, {"keys": list(needs.idempotency_keys)}):
            world.remembered[row[0]] = Remembered(*row)
    if needs.saved_keys:
        for row in await link.fetch(_SAVED_KEYS, {"keys": list(needs.saved_keys)}):
            world.keys[row[0]] = SavedKey(*row)
    await _load_runs(link, needs, world)
    if needs.inbox_run_ids:
        world.inbox = {run_id: [] for run_id in needs.inbox_run_ids}
        for row in await link.fetch(_INBOX, {"ids": list(needs.inbox_run_ids)}):
            item = InboxItem(*row)
            world.inbox[item.run_id].append(item)
    await _load_lanes(link, needs, world)
    ((world.seq, world.pruned_seq),) = await link.fetch(_STREAM, {})
    return world


async def _load_runs(link: Link, needs: Needs, world: World) -> None:
    ids, keys = list(needs.run_ids), list(needs.head_keys)
    rows: Sequence[Row] = ()
    if ids and keys:
        rows = await link.fetch(_RUNS_AND_HEADS, {"ids": ids, "keys": keys})
    elif ids:
        rows = await link.fetch(_RUNS_BY_ID, {"ids": ids})
    elif keys:
        rows = await link.fetch(_HEADS, {"keys": keys})
    for row in rows:
        world.load_run(Run.from_row(row))
    await _load_waiting(link, needs, world)
    if needs.latest_keys:
        latest = await link.fetch_each(_LATEST, [{"key": key} for key in needs.latest_keys])
        for key, run_id, checkpoint in latest:
            world.latest[key] = run_id
            if checkpoint is not None:
                world.checkpoints[run_id] = checkpoint
    if needs.pruned_ids:
        pruned_keys = {world.runs[i].key for i in needs.pruned_ids if i in world.runs}
        if pruned_keys:
            for row in await link.fetch(_HEADS, {"keys": sorted(pruned_keys)}):
                world.load_run(Run.from_row(row))


async def _load_waiting(link: Link, needs: Needs, world: World) -> None:
    """Those who may become head in this batch: one more than runs of the key that may end."""
    ending: Counter[Key] = Counter(
        world.runs[run_id].key
        for run_id, may_end in needs.run_ids.items()
        if may_end and run_id in world.runs
    )
    counts = {key: count + 1 for key, count in ending.items() if key in world.heads}
    counts |= dict.fromkeys((key for key in needs.whole_keys if key in world.heads), ALL)
    if not counts:
        return
    world.waiting.update({key: [] for key in counts})
    followed = await link.fetch(_HEADS_FOLLOWED, {"keys": list(counts)})
    if not followed:
        return
    wanted = [{"key": key, "count": counts[key]} for (key,) in followed]
    for row in await link.fetch_each(_WAITING, wanted):
        run = Run.from_row(row)
        world.load_run(run)
        world.waiting[run.key].append(run.id)


async def _load_lanes(link: Link, needs: Needs, world: World) -> None:
    claimed = {need.lane for need in needs.claims}
    names = sorted(claimed | set(needs.lanes))
    if not names:
        return
    for row in await link.fetch(_LANES, {"names": names}):
        world.known_lanes[row[0]] = Lane(*row)
    limited = {name for name, lane in world.known_lanes.items() if lane.max_queued is not None}
    locked = sorted((claimed | limited | set(needs.changed_lanes)) & set(world.known_lanes))
    if locked:
        for row in await link.fetch(_LANES_LOCKED, {"names": locked}):
            world.known_lanes[row[0]] = Lane(*row)
    for name in claimed | set(locked):
        await _load_queue(link, world, name)
    for need, count in needs.claims.items():
        await _load_ready(link, needs, world, need, count)
    if needs.claims:
        await _load_documents(link, needs, world)


async def _load_queue(link: Link, world: World, name: LaneName) -> None:
    queue = LaneQueue(world.known_lanes.get(name) or default_lane(name))
    ((queue.held_count,),) = await link.fetch(_HELD, {"lane": name})
    if queue.lane.max_queued is not None:
        ((queue.queued_count,),) = await link.fetch(_QUEUED, {"lane": name})
    world.lanes[name] = queue


async def _load_ready(link: Link, needs: Needs, world: World, need: ClaimNeed, count: int) -> None:
    queue = world.lanes[need.lane]
    # Each run of the batch may free a slot, or be one that would have been claimed.
    spare_count = len(needs.run_ids)
    if need.lane not in needs.changed_lanes:
        room_count = queue.lane.capacity - queue.held_count + spare_count
        count = min(count, room_count)
    if count <= 0:
        return
    left_count = count + spare_count
    for rank in READY_RANKS:
        parameters: dict[str, Any] = {
            "lane": need.lane,
            "rank": rank,
            "after": 0,
            "jobs": sorted(need.jobs),
            "instance_id": need.instance_id,
            "count": left_count,
        }
        for row in await link.fetch(_READY, parameters):
            run = Run.from_row(row[: len(RUN_COLUMNS)])
            world.params[run.id], checkpoint = row[len(RUN_COLUMNS) :]
            if checkpoint is not None:
                world.checkpoints[run.id] = checkpoint
            world.load_ready(need.lane, run)
            left_count -= 1
        if left_count <= 0:
            return


async def _load_documents(link: Link, needs: Needs, world: World) -> None:
    """What a claim hands out of runs that only become ready in this batch, or that continue."""
    wanted: dict[RunId, None] = dict(needs.waking_ids)
    for waiting in world.waiting.values():
        wanted |= dict.fromkeys(waiting)
    for run_id in (*world.params, *wanted):
        run = world.run(run_id)
        if run is not None and run.continued_from is not None:
            wanted[run.continued_from] = None
    if not wanted:
        return
    for run_id, params, checkpoint in await link.fetch(_DOCUMENTS, {"ids": list(wanted)}):
        world.params[run_id] = params
        if checkpoint is not None:
            world.checkpoints[run_id] = checkpoint
