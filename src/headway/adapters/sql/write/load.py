"""Lock the rows that a batch concerns, in the one order, and make a World of them.

The order: instances, saved keys, schedules, flows, workers, runs by key, those that wait
behind them, lanes by name, what may be claimed (never waiting for it), and the counter of the
stream last.
Whoever holds the counter is about to write and commit, and nobody else can.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import sqlalchemy as sa

from headway.adapters.sql.connect.database_clock import machine_now
from headway.adapters.sql.statements import (
    GuardFailed,
    Query,
    Row,
    in_list,
    integer_param,
    text_param,
)
from headway.adapters.sql.tables import (
    RUN_COLUMNS,
    instances,
    lanes,
    remembered,
    runs,
    saved_keys,
    schedules,
    stream,
)
from headway.adapters.sql.write.flow_rows import add_needed_parents, load_flows, load_tasks
from headway.adapters.sql.write.links.driver_link import Link
from headway.adapters.sql.write.load_pruning import load_for_pruning
from headway.adapters.sql.write.load_run_data import load_files, load_inbox
from headway.core.batch_state import (
    MESSAGE,
    BatchState,
    IdempotencyRecord,
    Instance,
    LaneQueue,
    SavedKey,
)
from headway.core.command.protocol import ClaimRequest, RowsNeeded
from headway.core.flow.engine.records import FLOW_JOB
from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.lane_row import LaneRow, default_lane
from headway.core.run.run import QueueRank, Run, RunMode
from headway.core.schedule import SavedSchedule

NO_LIMIT: Final = 1 << 62


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
_waiting_runs: Final = runs.alias("behind")
# Asked once the heads are locked: by a statement before, one who joined meanwhile is not seen.
_HEADS_WITH_WAITING: Final = Query(
    sa.select(runs.c.head_key).where(
        in_list(runs.c.head_key, "keys"),
        sa.exists().where(_waiting_runs.c.waiting_key == runs.c.head_key),
    ),
    mysql_select=sa.select(runs.c.waiting_key)
    .where(in_list(runs.c.waiting_key, "keys"))
    .group_by(runs.c.waiting_key),
)
_WAITING: Final = Query(
    sa.select(*RUN_COLUMNS)
    .where(runs.c.waiting_key == text_param("key"))
    .order_by(runs.c.seq)
    .limit(integer_param("count"))
    .with_for_update()
)
# One that ended in the queue is passed over: it has nothing to go on from.
_LATEST_RUN: Final = Query(
    sa.select(runs.c.key, runs.c.id)
    .where(
        runs.c.key == text_param("key"), runs.c.started_at.is_not(None) | runs.c.ended_at.is_(None)
    )
    .order_by(runs.c.seq.desc())
    .limit(sa.literal_column("1"))
    .with_for_update()
)
_STARTED_BEFORE: Final = Query(
    sa.select(runs.c.key, runs.c.id, runs.c.checkpoint)
    .where(
        runs.c.key == text_param("key"),
        runs.c.seq < integer_param("seq"),
        runs.c.started_at.is_not(None),
    )
    .order_by(runs.c.seq.desc())
    .limit(sa.literal_column("1"))
)
_HEADS_UNLOCKED: Final = Query(sa.select(runs.c.head_key).where(in_list(runs.c.head_key, "keys")))
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
_SCHEDULES: Final = Query(
    sa.select(*schedules.c)
    .where(in_list(schedules.c.name, "names"))
    .order_by(schedules.c.name)
    .with_for_update()
)
_CHILD_COUNT: Final = Query(sa.select(sa.func.count()).where(runs.c.child_of == text_param("id")))
_LANES: Final = Query(sa.select(*lanes.c).where(in_list(lanes.c.name, "names")))
_LANES_LOCKED: Final = Query(
    sa.select(*lanes.c)
    .where(in_list(lanes.c.name, "names"))
    .order_by(lanes.c.name)
    .with_for_update()
)
# How many slots of a lane are held, and of which rank the first of its queue is.
_HELD_COUNT_AND_FIRST_RANK: Final = Query(
    sa.select(
        lanes.c.name,
        sa.select(sa.func.count()).where(runs.c.slot == lanes.c.name).scalar_subquery(),
        sa.select(sa.func.min(runs.c.queue_rank))
        .where(runs.c.lane == lanes.c.name, runs.c.queue_rank.is_not(None))
        .scalar_subquery(),
    ).where(in_list(lanes.c.name, "lanes"))
)
_QUEUED_COUNT: Final = Query(
    sa.select(sa.func.count()).where(
        runs.c.lane == text_param("lane"),
        runs.c.queue_rank.in_([sa.literal_column("1"), sa.literal_column("2")]),
    )
)
_CLAIMABLE: Final = sa.select(*RUN_COLUMNS, runs.c.params, runs.c.checkpoint).where(
    runs.c.lane == text_param("lane")
)
_READY: Final = Query(
    _CLAIMABLE.where(runs.c.queue_rank == sa.literal_column("1"), in_list(runs.c.job, "jobs"))
    .order_by(runs.c.ready_seq)
    .limit(integer_param("count"))
    .with_for_update(skip_locked=True)
)
# Also those that only another instance may take: slots are kept for them.
_RESUMED: Final = Query(
    _CLAIMABLE.where(
        runs.c.queue_rank == sa.literal_column("0"),
        in_list(runs.c.job, "jobs") | runs.c.instance_id.is_not(None),
    )
    .order_by(runs.c.ready_seq)
    .limit(integer_param("count"))
    .with_for_update(skip_locked=True)
)


@lru_cache
def _stream_query(now_sql: str | None) -> Query:
    """Also tells what time it is there: later than anything that was locked before."""
    now = sa.null() if now_sql is None else sa.literal_column(now_sql)
    return Query(
        sa.select(stream.c.seq, stream.c.pruned_seq, stream.c.epoch, now)
        .where(stream.c.id == sa.literal_column("1"))
        .with_for_update()
    )


async def load_batch_state(
    link: Link, needs: RowsNeeded, *, now: Callable[[], Instant] | None = None
) -> tuple[BatchState, int]:
    """The world that `needs` names, and the epoch of the node that holds it.

    `now` replaces the database's clock.
    """
    world = BatchState(now=Instant(0), seq=0)
    if needs.instance_ids:
        for row in await link.fetch(_INSTANCES, {"ids": list(needs.instance_ids)}):
            instance = Instance(*row)
            world.instances[instance.id] = instance
    if needs.saved_keys:
        for row in await link.fetch(_SAVED_KEYS, {"keys": list(needs.saved_keys)}):
            world.keys[row[0]] = SavedKey(*row)
        world.loaded_keys = dict(world.keys)
    if needs.schedules:
        for row in await link.fetch(_SCHEDULES, {"names": list(needs.schedules)}):
            world.schedules[row[0]] = SavedSchedule(*row)
        world.loaded_schedules = dict(world.schedules)
    if needs.flows or needs.workers:
        await load_flows(link, needs, world)
    if needs.child_ids:
        await add_needed_parents(link, needs)
    await _load_runs(link, needs, world)
    _add_unread_needs(needs, world)
    await load_inbox(link, needs, world)
    if needs.task_ids or needs.ended_ids:
        await load_tasks(link, needs, world)
    for run_id in needs.parent_ids:
        ((world.child_counts[run_id],),) = await link.fetch(_CHILD_COUNT, {"id": run_id})
    await _load_lanes(link, needs, world)
    ((world.seq, world.pruned_seq, epoch, there),) = await link.fetch(
        _stream_query(link.now_sql), {}
    )
    world.now = now() if now is not None else machine_now() if there is None else there
    if needs.idempotency_keys:
        # Asked last, when nobody else can commit: a head that was seen may be the first answer.
        for row in await link.fetch(_REMEMBERED, {"keys": list(needs.idempotency_keys)}):
            world.idempotency_records[row[0]] = IdempotencyRecord(*row)
    await load_files(link, needs, world)
    await _recheck_free_keys(link, needs, world)
    return world, epoch


ANSWERED_RUN_SEQ_MIN: Final = 4
"""The events of a run with an answered question: queued, started, asked, answered."""


def _add_unread_needs(needs: RowsNeeded, world: BatchState) -> None:
    """Load the unread messages and answers of runs that may end: the end reports them."""
    for run in world.runs.values():
        may_end = needs.run_ids.get(run.id) or run.key in needs.whole_keys
        if not may_end or run.job == FLOW_JOB:
            continue
        if run.unread_count:
            needs.add_inbox(run.id, MESSAGE)
        if run.run_seq >= ANSWERED_RUN_SEQ_MIN:
            needs.interrupt_run_ids[run.id] = None


async def _recheck_free_keys(link: Link, needs: RowsNeeded, world: BatchState) -> None:
    """A key that seemed free may have got a run before the stream was locked; now none can.

    A new run is refused by the unique index in that case; nothing else would notice.
    """
    keys = [*needs.saved_keys, *(world.runs[i].key for i in needs.pruned_ids if i in world.runs)]
    free = [key for key in keys if key not in world.head_run_ids]
    if free and await link.fetch(_HEADS_UNLOCKED, {"keys": free}):
        raise GuardFailed(_HEADS_UNLOCKED)


async def _load_runs(link: Link, needs: RowsNeeded, world: BatchState) -> None:
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
        for key, run_id in await link.fetch_each(
            _LATEST_RUN, [{"key": key} for key in needs.latest_keys]
        ):
            world.latest_run_ids[key] = run_id
        before = [{"key": key, "seq": NO_LIMIT} for key in needs.latest_keys]
        for key, run_id, checkpoint in await link.fetch_each(_STARTED_BEFORE, before):
            world.latest_started_ids[key] = run_id
            if checkpoint is not None:
                world.checkpoints[run_id] = checkpoint
    if needs.pruned_ids:
        pruned_keys = {world.runs[i].key for i in needs.pruned_ids if i in world.runs}
        if pruned_keys:
            for row in await link.fetch(_HEADS, {"keys": sorted(pruned_keys)}):
                world.load_run(Run.from_row(row))
        await load_for_pruning(link, needs, world)


async def _load_waiting(link: Link, needs: RowsNeeded, world: BatchState) -> None:
    """Those who may become head in this batch: one more than runs of the key that may end."""
    ending: Counter[Key] = Counter(
        world.runs[run_id].key
        for run_id, may_end in needs.run_ids.items()
        if may_end and run_id in world.runs
    )
    counts = {key: count + 1 for key, count in ending.items() if key in world.head_run_ids}
    counts |= dict.fromkeys(
        (key for key in needs.whole_keys if key in world.head_run_ids), NO_LIMIT
    )
    if not counts:
        return
    world.waiting_run_ids.update({key: [] for key in counts})
    followed = await link.fetch(_HEADS_WITH_WAITING, {"keys": list(counts)})
    if not followed:
        return
    wanted = [{"key": key, "count": counts[key]} for (key,) in followed]
    for row in await link.fetch_each(_WAITING, wanted):
        run = Run.from_row(row)
        world.load_run(run)
        world.waiting_run_ids[run.key].append(run.id)


async def _load_lanes(link: Link, needs: RowsNeeded, world: BatchState) -> None:
    claimed = {need.lane for need in needs.claims}
    changed = set(needs.changed_lanes)
    names = claimed | changed | set(needs.lanes)
    if not names:
        return
    locked = claimed | changed
    if names != locked:
        for row in await link.fetch(_LANES, {"names": sorted(names)}):
            world.lane_rows[row[0]] = LaneRow(*row)
        # A lane that is made after this look is not ours to claim from: it was not locked.
        limited = {name for name, lane in world.lane_rows.items() if lane.max_queued is not None}
        locked = (locked | limited) & set(world.lane_rows)
    if locked:
        for row in await link.fetch(_LANES_LOCKED, {"names": sorted(locked)}):
            world.lane_rows[row[0]] = LaneRow(*row)
        locked &= set(world.lane_rows)
    world.loaded_lane_rows = dict(world.lane_rows)
    for name in claimed | changed | locked:
        world.lane_queues[name] = LaneQueue(world.lane_rows.get(name) or default_lane(name))
    if locked:
        ranks = await _count_queues(link, needs, world, sorted(locked))
        for need in needs.claims:
            rank = ranks.get(need.lane)
            if rank is not None and rank < QueueRank.BEHIND:
                is_wanted = rank == QueueRank.RESUMED
                await _load_ready(link, needs, world, need, has_resumed=is_wanted)
    if needs.claims:
        await _load_documents(link, needs, world)


async def _count_queues(
    link: Link, needs: RowsNeeded, world: BatchState, names: Sequence[LaneName]
) -> dict[LaneName, int | None]:
    """Tell the queues what they hold; of which rank the first of each is, None where it is empty.

    What is behind others cannot be claimed; what wants a slot again goes before all.
    """
    ranks: dict[LaneName, int | None] = {}
    for name, held_count, rank in await link.fetch(_HELD_COUNT_AND_FIRST_RANK, {"lanes": names}):
        world.lane_queues[name].held_count = held_count
        ranks[name] = rank
    for name in names:
        queue = world.lane_queues[name]
        if queue.lane.max_queued is not None or name in needs.changed_lanes:
            ((queue.queued_count,),) = await link.fetch(_QUEUED_COUNT, {"lane": name})
    return ranks


async def _load_ready(
    link: Link, needs: RowsNeeded, world: BatchState, need: ClaimRequest, *, has_resumed: bool
) -> None:
    queue = world.lane_queues[need.lane]
    count = sum(wanted for other, wanted in needs.claims.items() if other.lane == need.lane)
    # A run of the batch may free its slot, or be one that would have been claimed.
    here = [run for run in world.runs.values() if run.lane == need.lane]
    if need.lane not in needs.changed_lanes:
        freed_count = sum(run.slot is not None for run in here)
        count = min(count, queue.lane.capacity - queue.held_count + freed_count)
    if count <= 0:
        return
    count += sum(run.queue_rank is not None for run in here)
    parameters: dict[str, Any] = {"lane": need.lane, "jobs": sorted(need.jobs)}
    if has_resumed:  # Somebody wants a slot again.
        wanted_count = max(count, queue.lane.capacity)
        for row in await link.fetch(_RESUMED, parameters | {"count": wanted_count}):
            _add_claimable(world, row)
    for row in await link.fetch(_READY, parameters | {"count": count}):
        _add_claimable(world, row)


def _add_claimable(world: BatchState, row: Row) -> None:
    run = Run.from_row(row[: len(RUN_COLUMNS)])
    world.params[run.id], checkpoint = row[len(RUN_COLUMNS) :]
    if checkpoint is not None:
        world.checkpoints[run.id] = checkpoint
    world.load_ready(run)


async def _load_documents(link: Link, needs: RowsNeeded, world: BatchState) -> None:
    """What a claim hands out of runs that only become ready in this batch, or that continue."""
    wanted: dict[RunId, None] = dict(needs.waking_ids)
    for waiting in world.waiting_run_ids.values():
        wanted |= dict.fromkeys(waiting)
    if wanted:
        for run_id, params, checkpoint in await link.fetch(_DOCUMENTS, {"ids": list(wanted)}):
            world.params[run_id] = params
            if checkpoint is not None:
                world.checkpoints[run_id] = checkpoint
    continuing = [
        run
        for run_id in world.params
        if (run := world.run(run_id)) is not None
        and run.mode is RunMode.CONTINUE
        and run.started_at is None
    ]
    for run in continuing:
        before = {"key": run.key, "seq": run.seq}
        for _, run_id, checkpoint in await link.fetch(_STARTED_BEFORE, before):
            world.previous_run_ids[run.id] = run_id
            if checkpoint is not None:
                world.checkpoints.setdefault(run_id, checkpoint)
