"""Lock the rows that a batch needs and load them into a BatchState.

Every batch locks in the same order, so that two batches cannot wait for each other:

1. instances, saved keys, schedules, flows and workers, each by its key;
2. runs by key and seq, then the runs that wait behind them;
3. lanes by name;
4. claimable runs, with SKIP LOCKED, so this step never waits;
5. the row of `stream`.

After a batch has locked `stream`, no other batch can commit until this batch has committed. Rows
that are not locked, such as idempotency keys and files, are read after this lock.

See docs/internals/writer.md.
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
    idempotency_keys,
    instances,
    lanes,
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


# On a small table MariaDB prefers a full scan to a lookup of a third of the rows. It would then
# wait for locks on unrelated rows, so the index is forced.
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
# Executed after the heads are locked. Before that, a run could still be added behind a head.
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
# Skip runs that ended in the queue: they have no checkpoint.
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
_IDEMPOTENCY_KEYS: Final = Query(
    sa.select(*idempotency_keys.c).where(in_list(idempotency_keys.c.idempotency_key, "keys"))
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
# For each lane the number of slots in use, and the rank of the first run in its queue.
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
# Includes runs that only another instance may claim, because slots are reserved for them.
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
    """Return the query that takes the last lock, on the stream, and reads the time."""
    now = sa.null() if now_sql is None else sa.literal_column(now_sql)
    return Query(
        sa.select(stream.c.seq, stream.c.pruned_seq, stream.c.epoch, now)
        .where(stream.c.id == sa.literal_column("1"))
        .with_for_update()
    )


async def load_batch_state(
    link: Link, needed: RowsNeeded, *, now: Callable[[], Instant] | None = None
) -> tuple[BatchState, int]:
    """Lock and load the rows in `needed`. Return the state and the epoch of the node.

    `now` replaces the database's clock, for tests.
    """
    batch = BatchState(now=Instant(0), seq=0)
    if needed.instance_ids:
        for row in await link.fetch(_INSTANCES, {"ids": list(needed.instance_ids)}):
            instance = Instance(*row)
            batch.instances[instance.id] = instance
    if needed.saved_keys:
        for row in await link.fetch(_SAVED_KEYS, {"keys": list(needed.saved_keys)}):
            batch.keys[row[0]] = SavedKey(*row)
        batch.loaded_keys = dict(batch.keys)
    if needed.schedules:
        for row in await link.fetch(_SCHEDULES, {"names": list(needed.schedules)}):
            batch.schedules[row[0]] = SavedSchedule(*row)
        batch.loaded_schedules = dict(batch.schedules)
    if needed.flows or needed.workers:
        await load_flows(link, needed, batch)
    if needed.child_ids:
        await add_needed_parents(link, needed)
    await _load_runs(link, needed, batch)
    _add_unread_needs(needed, batch)
    await load_inbox(link, needed, batch)
    if needed.task_ids or needed.ended_ids:
        await load_tasks(link, needed, batch)
    for run_id in needed.parent_ids:
        ((batch.child_counts[run_id],),) = await link.fetch(_CHILD_COUNT, {"id": run_id})
    await _load_lanes(link, needed, batch)
    ((batch.seq, batch.pruned_seq, epoch, server_now),) = await link.fetch(
        _stream_query(link.now_sql), {}
    )
    batch.now = now() if now is not None else machine_now() if server_now is None else server_now
    if needed.idempotency_keys:
        # Read after the stream is locked, when no other batch can commit. A head that was loaded
        # above may be the run of an earlier request with the same idempotency key.
        for row in await link.fetch(_IDEMPOTENCY_KEYS, {"keys": list(needed.idempotency_keys)}):
            batch.idempotency_records[row[0]] = IdempotencyRecord(*row)
    if needed.files or needed.output_keys:
        await load_files(link, needed, batch)
    await _recheck_free_keys(link, needed, batch)
    return batch, epoch


ANSWERED_RUN_SEQ_MIN: Final = 4
"""The fewest events of a run with an answered interrupt: queued, started, asked, answered."""


def _add_unread_needs(needed: RowsNeeded, batch: BatchState) -> None:
    """For runs that may end, add their unread messages and interrupts to the rows to load.

    When a run ends, its unread messages and answers are reported.
    """
    for run in batch.runs.values():
        may_end = needed.run_ids.get(run.id) or run.key in needed.whole_keys
        if not may_end or run.job == FLOW_JOB:
            continue
        if run.unread_count:
            needed.add_inbox(run.id, MESSAGE)
        if run.run_seq >= ANSWERED_RUN_SEQ_MIN:
            needed.interrupt_run_ids[run.id] = None


async def _recheck_free_keys(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    """Raise GuardFailed if a key without a head got a run before the stream was locked.

    Once the stream is locked, no other batch can add a run. If this batch itself adds a run of the
    key, the unique index would also refuse it. For other commands, only this check detects the
    change.
    """
    keys = [*needed.saved_keys, *(batch.runs[i].key for i in needed.pruned_ids if i in batch.runs)]
    free_keys = [key for key in keys if key not in batch.head_run_ids]
    if free_keys and await link.fetch(_HEADS_UNLOCKED, {"keys": free_keys}):
        raise GuardFailed(_HEADS_UNLOCKED)


async def _load_runs(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    ids, keys = list(needed.run_ids), list(needed.head_keys)
    rows: Sequence[Row] = ()
    if ids and keys:
        rows = await link.fetch(_RUNS_AND_HEADS, {"ids": ids, "keys": keys})
    elif ids:
        rows = await link.fetch(_RUNS_BY_ID, {"ids": ids})
    elif keys:
        rows = await link.fetch(_HEADS, {"keys": keys})
    for row in rows:
        batch.load_run(Run.from_row(row))
    await _load_waiting(link, needed, batch)
    if needed.latest_keys:
        for key, run_id in await link.fetch_each(
            _LATEST_RUN, [{"key": key} for key in needed.latest_keys]
        ):
            batch.latest_run_ids[key] = run_id
        before = [{"key": key, "seq": NO_LIMIT} for key in needed.latest_keys]
        for key, run_id, checkpoint in await link.fetch_each(_STARTED_BEFORE, before):
            batch.latest_started_ids[key] = run_id
            if checkpoint is not None:
                batch.checkpoints[run_id] = checkpoint
    if needed.pruned_ids:
        pruned_keys = {batch.runs[i].key for i in needed.pruned_ids if i in batch.runs}
        if pruned_keys:
            for row in await link.fetch(_HEADS, {"keys": sorted(pruned_keys)}):
                batch.load_run(Run.from_row(row))
        await load_for_pruning(link, needed, batch)


async def _load_waiting(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    """Load the waiting runs that may become the head of their key in this batch.

    If n runs of a key may end in this batch, load n + 1 of its waiting runs. For a key in
    `needed.whole_keys`, load all of its waiting runs.
    """
    ending_counts: Counter[Key] = Counter(
        batch.runs[run_id].key
        for run_id, may_end in needed.run_ids.items()
        if may_end and run_id in batch.runs
    )
    counts = {key: count + 1 for key, count in ending_counts.items() if key in batch.head_run_ids}
    counts |= dict.fromkeys(
        (key for key in needed.whole_keys if key in batch.head_run_ids), NO_LIMIT
    )
    if not counts:
        return
    batch.waiting_run_ids.update({key: [] for key in counts})
    keys = await link.fetch(_HEADS_WITH_WAITING, {"keys": list(counts)})
    if not keys:
        return
    parameters = [{"key": key, "count": counts[key]} for (key,) in keys]
    for row in await link.fetch_each(_WAITING, parameters):
        run = Run.from_row(row)
        batch.load_run(run)
        batch.waiting_run_ids[run.key].append(run.id)


async def _load_lanes(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    claimed = {request.lane for request in needed.claims}
    changed = set(needed.changed_lanes)
    names = claimed | changed | set(needed.lanes)
    if not names:
        return
    locked = claimed | changed
    if names != locked:
        for row in await link.fetch(_LANES, {"names": sorted(names)}):
            batch.lane_rows[row[0]] = LaneRow(*row)
        # Do not claim from a lane that was created after this query, because it is not locked.
        limited = {name for name, lane in batch.lane_rows.items() if lane.max_queued is not None}
        locked = (locked | limited) & set(batch.lane_rows)
    if locked:
        for row in await link.fetch(_LANES_LOCKED, {"names": sorted(locked)}):
            batch.lane_rows[row[0]] = LaneRow(*row)
        locked &= set(batch.lane_rows)
    batch.loaded_lane_rows = dict(batch.lane_rows)
    for name in claimed | changed | locked:
        batch.lane_queues[name] = LaneQueue(batch.lane_rows.get(name) or default_lane(name))
    if locked:
        ranks = await _count_queues(link, needed, batch, sorted(locked))
        for request in needed.claims:
            rank = ranks.get(request.lane)
            if rank is not None and rank < QueueRank.BEHIND:
                has_resumed = rank == QueueRank.RESUMED
                await _load_ready(link, needed, batch, request, has_resumed=has_resumed)
    if needed.claims:
        await _load_documents(link, needed, batch)


async def _count_queues(
    link: Link, needed: RowsNeeded, batch: BatchState, names: Sequence[LaneName]
) -> dict[LaneName, int | None]:
    """Set the counts of the lane queues. Return the rank of the first run in each queue.

    The rank of an empty queue is None. A run of rank BEHIND cannot be claimed. Runs of rank RESUMED
    are claimed before all others.
    """
    ranks: dict[LaneName, int | None] = {}
    for name, held_count, rank in await link.fetch(_HELD_COUNT_AND_FIRST_RANK, {"lanes": names}):
        batch.lane_queues[name].held_count = held_count
        ranks[name] = rank
    for name in names:
        queue = batch.lane_queues[name]
        if queue.lane.max_queued is not None or name in needed.changed_lanes:
            ((queue.queued_count,),) = await link.fetch(_QUEUED_COUNT, {"lane": name})
    return ranks


async def _load_ready(
    link: Link, needed: RowsNeeded, batch: BatchState, request: ClaimRequest, *, has_resumed: bool
) -> None:
    lane = request.lane
    queue = batch.lane_queues[lane]
    count = sum(claim_count for other, claim_count in needed.claims.items() if other.lane == lane)
    # A loaded run may free its slot in this batch, or may be one of the claimable runs.
    loaded_runs = [run for run in batch.runs.values() if run.lane == lane]
    if lane not in needed.changed_lanes:
        freed_count = sum(run.slot is not None for run in loaded_runs)
        count = min(count, queue.lane.capacity - queue.held_count + freed_count)
    if count <= 0:
        return
    count += sum(run.queue_rank is not None for run in loaded_runs)
    parameters: dict[str, Any] = {"lane": lane, "jobs": sorted(request.jobs)}
    if has_resumed:
        resumed_count = max(count, queue.lane.capacity)
        for row in await link.fetch(_RESUMED, parameters | {"count": resumed_count}):
            _add_claimable(batch, row)
    for row in await link.fetch(_READY, parameters | {"count": count}):
        _add_claimable(batch, row)


def _add_claimable(batch: BatchState, row: Row) -> None:
    run = Run.from_row(row[: len(RUN_COLUMNS)])
    batch.params[run.id], checkpoint = row[len(RUN_COLUMNS) :]
    if checkpoint is not None:
        batch.checkpoints[run.id] = checkpoint
    batch.load_ready(run)


async def _load_documents(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    """Load the params and checkpoints of runs that may become ready and be claimed in the batch.

    For a run that continues an earlier run, also load the earlier run's checkpoint.
    """
    run_ids: dict[RunId, None] = dict(needed.waking_ids)
    for waiting in batch.waiting_run_ids.values():
        run_ids |= dict.fromkeys(waiting)
    if run_ids:
        for run_id, params, checkpoint in await link.fetch(_DOCUMENTS, {"ids": list(run_ids)}):
            batch.params[run_id] = params
            if checkpoint is not None:
                batch.checkpoints[run_id] = checkpoint
    continuing = [
        run
        for run_id in batch.params
        if (run := batch.run(run_id)) is not None
        and run.mode is RunMode.CONTINUE
        and run.started_at is None
    ]
    for run in continuing:
        before = {"key": run.key, "seq": run.seq}
        for _, run_id, checkpoint in await link.fetch(_STARTED_BEFORE, before):
            batch.previous_run_ids[run.id] = run_id
            if checkpoint is not None:
                batch.checkpoints.setdefault(run_id, checkpoint)
