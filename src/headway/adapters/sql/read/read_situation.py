"""Read the state that explains what a run is waiting for. Every query uses an index."""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.read.read_board import IS_OPEN
from headway.adapters.sql.statements import Query
from headway.adapters.sql.tables import RUN_COLUMNS, events, instances, interrupts, lanes, runs
from headway.core.ids import RunId
from headway.core.lane_row import LaneRow, default_lane
from headway.core.run.events import EventType
from headway.core.run.explain import (
    CHILD_COUNT_MAX,
    INTERRUPT_COUNT_MAX,
    SLOT_HOLDER_COUNT_MAX,
    Situation,
)
from headway.core.run.run import QueueRank, Run

# A run may report progress ten times per second for days, so only its newest events are searched.
EVENT_COUNT_MAX: Final = 10_000
MOVE_EVENT_TYPES: Final = (
    EventType.STATE_CHANGED,
    EventType.TAKEN_OVER,
    EventType.RESUMED,
    EventType.WAITING,
    EventType.PARKED,
    EventType.WOKEN,
)

_lane: Final = sa.bindparam("lane", type_=sa.String())
_run_id: Final = sa.bindparam("run_id", type_=sa.String())
_seq: Final = sa.bindparam("seq", type_=sa.BigInteger())
_COUNT: Final = sa.select(sa.func.count()).select_from(runs)

RUN: Final = Query(sa.select(*RUN_COLUMNS, runs.c.error, runs.c.cancel).where(runs.c.id == _run_id))
HEAD: Final = Query(
    sa.select(*RUN_COLUMNS).where(runs.c.head_key == sa.bindparam("key", type_=sa.String()))
)
COUNT_AHEAD_IN_KEY: Final = Query(
    _COUNT.where(runs.c.waiting_key == sa.bindparam("key", type_=sa.String()), runs.c.seq < _seq)
)
COUNT_AHEAD_IN_RANK: Final = Query(
    _COUNT.where(
        runs.c.lane == _lane,
        runs.c.queue_rank == sa.bindparam("rank", type_=sa.Integer()),
        runs.c.ready_seq < _seq,
    )
)
COUNT_IN_RANK: Final = Query(
    _COUNT.where(
        runs.c.lane == _lane, runs.c.queue_rank == sa.bindparam("rank", type_=sa.Integer())
    )
)
LANE: Final = Query(sa.select(*lanes.c).where(lanes.c.name == _lane))
HELD_COUNT: Final = Query(_COUNT.where(runs.c.slot == _lane))
# Sorted by an expression. Otherwise SQLite would read all runs in the order of `seq`.
SLOT_HOLDERS: Final = Query(
    sa.select(runs.c.id)
    .where(runs.c.slot == _lane)
    .order_by(runs.c.seq + sa.literal_column("0"))
    .limit(sa.literal_column(str(SLOT_HOLDER_COUNT_MAX)))
)
CHILDREN: Final = Query(
    sa.select(runs.c.id)
    .where(runs.c.child_of == _run_id)
    .order_by(runs.c.seq)
    .limit(sa.literal_column(str(CHILD_COUNT_MAX)))
)
INTERRUPTS: Final = Query(
    sa.select(interrupts.c.call_id)
    .join(runs, runs.c.id == interrupts.c.run_id)
    .where(interrupts.c.run_id == _run_id, IS_OPEN)
    .order_by(interrupts.c.asked_at, interrupts.c.call_id)
    .limit(sa.literal_column(str(INTERRUPT_COUNT_MAX)))
)
LEASES: Final = Query(
    sa.select(instances.c.id, instances.c.lease_expires_at).where(
        instances.c.is_dead == sa.literal_column("0")
    )
)
READY_AT: Final = Query(sa.select(events.c.at).where(events.c.seq == _seq))
_latest: Final = (
    sa.select(events.c.type, events.c.at, events.c.run_seq)
    .where(events.c.run_id == _run_id)
    .order_by(events.c.run_seq.desc())
    .limit(sa.literal_column(str(EVENT_COUNT_MAX)))
    .subquery()
)
MOVED_AT: Final = Query(
    sa.select(_latest.c.at)
    .where(_latest.c.type.in_([sa.literal_column(f"'{move}'") for move in MOVE_EVENT_TYPES]))
    .order_by(_latest.c.run_seq.desc())
    .limit(sa.literal_column("1"))
)


async def read_situation(connection: AsyncConnection, run_id: RunId) -> Situation | None:
    row = (await connection.execute(RUN.select, {"run_id": run_id})).one_or_none()
    if row is None:
        return None
    *run_row, error, cancel = row
    run = Run.from_row(run_row)
    in_lane = {"lane": run.lane}
    head = (await connection.execute(HEAD.select, {"key": run.key})).one_or_none()
    lane = (await connection.execute(LANE.select, in_lane)).one_or_none()
    holders = await connection.execute(SLOT_HOLDERS.select, in_lane)
    leases = await connection.execute(LEASES.select)
    children = await connection.execute(CHILDREN.select, {"run_id": run_id})
    interrupt_rows = await connection.execute(INTERRUPTS.select, {"run_id": run_id})
    return Situation(
        run=run,
        lane=default_lane(run.lane) if lane is None else LaneRow(*lane),
        head=None if head is None else Run.from_row(tuple(head)),
        ahead_count=await _count_ahead(connection, run),
        slot_holder_ids=[RunId(run_id) for (run_id,) in holders],
        held_count=await connection.scalar(HELD_COUNT.select, in_lane) or 0,
        leases={row.id: row.lease_expires_at for row in leases},
        ready_at=await connection.scalar(READY_AT.select, {"seq": run.ready_seq}),
        moved_at=await connection.scalar(MOVED_AT.select, {"run_id": run_id}),
        child_ids=[RunId(child_id) for (child_id,) in children],
        open_call_ids=[call_id for (call_id,) in interrupt_rows],
        error=error,
        cancel=cancel,
    )


async def _count_ahead(connection: AsyncConnection, run: Run) -> int:
    if run.queue_rank is None:
        return 0
    if run.queue_rank == QueueRank.BEHIND:
        before = {"key": run.key, "seq": run.seq}
        return await connection.scalar(COUNT_AHEAD_IN_KEY.select, before) or 0
    in_rank = {"lane": run.lane, "rank": run.queue_rank}
    before = in_rank | {"seq": run.ready_seq}
    count: int = await connection.scalar(COUNT_AHEAD_IN_RANK.select, before) or 0
    if run.queue_rank == QueueRank.READY:
        resumed = in_rank | {"rank": int(QueueRank.RESUMED)}
        count += await connection.scalar(COUNT_IN_RANK.select, resumed) or 0
    return count
