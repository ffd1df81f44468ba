"""Read the pages that the doctor examines.

A page is read in one transaction, and each of its queries uses an index.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.tables import (
    RUN_COLUMNS,
    events,
    inbox,
    instances,
    lanes,
    runs,
    stream,
)
from headway.core.batch_state import Instance
from headway.core.doctor.history import PAYLOAD_PREFIX_LENGTH, RunSeqRange, StateChange
from headway.core.doctor.run_page import ExaminedRuns, KeyHead
from headway.core.doctor.slots import SLOT_EVENT_TYPES, SLOT_PAYLOAD_PREFIX_LENGTH, SlotEvent
from headway.core.doctor.stream import ExaminedEvents, LaneUsage, StreamExtent
from headway.core.event_payloads import encode_transition
from headway.core.ids import Key, RunId
from headway.core.lane_row import LaneRow
from headway.core.run.events import EventType
from headway.core.run.run import Recovery, Run, RunMode
from headway.core.run.status import RunStatus

_ids: Final = sa.bindparam("ids", type_=sa.String(), expanding=True)
_keys: Final = sa.bindparam("keys", type_=sa.String(), expanding=True)
_lane: Final = sa.bindparam("lane", type_=sa.String())
_after: Final = sa.bindparam("after_seq", type_=sa.BigInteger())
_up_to: Final = sa.bindparam("up_to_seq", type_=sa.BigInteger())
_limit: Final = sa.bindparam("limit", type_=sa.Integer())
_earlier: Final = runs.alias("earlier")
_parent: Final = runs.alias("parent")

EXTENT: Final = sa.select(
    stream.c.seq,
    stream.c.pruned_seq,
    # Two subqueries, because SQLite reads all events if one query has both MIN and MAX.
    sa.select(sa.func.min(events.c.seq)).scalar_subquery(),
    sa.select(sa.func.max(events.c.seq)).scalar_subquery(),
)
STREAM: Final = sa.select(stream.c.seq, stream.c.pruned_seq)
RUNS: Final = sa.select(*RUN_COLUMNS).where(runs.c.seq > _after).order_by(runs.c.seq).limit(_limit)
HEADS: Final = sa.select(runs.c.head_key, runs.c.seq, runs.c.id, runs.c.started_at).where(
    runs.c.head_key.in_(_keys)
)
FIRST_WAITING: Final = (
    sa.select(runs.c.waiting_key, sa.func.min(runs.c.seq))
    .where(runs.c.waiting_key.in_(_keys))
    .group_by(runs.c.waiting_key)
)
_PREDECESSOR: Final = (
    sa.select(_earlier.c.id)
    .where(
        _earlier.c.key == runs.c.key,
        _earlier.c.seq < runs.c.seq,
        _earlier.c.started_at.is_not(None),
    )
    .order_by(_earlier.c.seq.desc())
    .limit(sa.literal_column("1"))
    .scalar_subquery()
)
PREDECESSORS: Final = sa.select(runs.c.id, _PREDECESSOR).where(
    runs.c.id.in_(_ids), runs.c.started_at.is_not(None)
)
RUN_SEQ_RANGES: Final = (
    sa.select(
        events.c.run_id,
        sa.func.min(events.c.run_seq),
        sa.func.max(events.c.run_seq),
        sa.func.count(),
    )
    .where(events.c.run_id.in_(_ids))
    .group_by(events.c.run_id)
)
CHANGES: Final = (
    sa.select(
        events.c.run_id,
        events.c.seq,
        events.c.run_seq,
        sa.func.substr(events.c.payload, 1, sa.literal_column(str(PAYLOAD_PREFIX_LENGTH))),
    )
    .where(events.c.run_id.in_(_ids), events.c.type == sa.literal(EventType.STATE_CHANGED.value))
    .order_by(events.c.run_id, events.c.run_seq)
)
UNREAD_COUNTS: Final = (
    sa.select(inbox.c.run_id, sa.func.count())
    .where(inbox.c.run_id.in_(_ids), inbox.c.consumed_generation.is_(None))
    .group_by(inbox.c.run_id)
)
ORPHANED_RUNS: Final = sa.select(runs.c.id, _parent.c.id).where(
    runs.c.id.in_(_ids),
    runs.c.status.in_([RunStatus.QUEUED.value, RunStatus.RUNNING.value]),
    _parent.c.id == runs.c.parent_id,
    _parent.c.status.not_in([RunStatus.QUEUED.value, RunStatus.RUNNING.value]),
    _parent.c.is_parent == 0,
)
_between: Final = (events.c.seq > _after, events.c.seq <= _up_to)
EVENT_COUNT: Final = sa.select(sa.func.count()).select_from(events).where(*_between)
SLOT_EVENTS: Final = (
    sa.select(
        events.c.seq,
        events.c.run_id,
        events.c.lane,
        events.c.type,
        sa.func.substr(events.c.payload, 1, sa.literal_column(str(SLOT_PAYLOAD_PREFIX_LENGTH))),
    )
    .where(*_between, events.c.type.in_(sorted(str(kind) for kind in SLOT_EVENT_TYPES)))
    .order_by(events.c.seq)
)
EVENT_SEQS: Final = sa.select(events.c.seq).where(*_between).order_by(events.c.seq)
LANES: Final = sa.select(
    *lanes.c,
    sa.select(sa.func.count()).where(runs.c.slot == lanes.c.name).scalar_subquery(),
).order_by(lanes.c.name)
_START_PATTERN: Final = (
    encode_transition(RunStatus.QUEUED, RunStatus.RUNNING).removesuffix("}") + "%"
)
_IS_START: Final = (
    events.c.type == sa.literal(EventType.STATE_CHANGED.value)
) & events.c.payload.like(_START_PATTERN)
LAST_TAKEN_SEQ: Final = sa.select(sa.func.max(events.c.seq)).where(
    events.c.run_id.in_(sa.select(runs.c.id).where(runs.c.slot == _lane)),
    _IS_START | (events.c.type == sa.literal(EventType.RESUMED.value)),
)
LANE_CHANGED: Final = (
    sa.select(events.c.seq)
    .where(
        events.c.seq > _after,
        events.c.type == sa.literal(EventType.LANE_CHANGED.value),
        events.c.lane == _lane,
    )
    .order_by(events.c.seq)
    .limit(sa.literal_column("1"))
)
_ENUM_COLUMNS: Final = (("mode", RunMode), ("recovery", Recovery), ("status", RunStatus))


class SqlDoctorReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def extent(self) -> StreamExtent:
        async def read(connection: AsyncConnection) -> StreamExtent:
            return StreamExtent(*(await connection.execute(EXTENT)).one())

        return await self._database.read_with_retry(read, in_snapshot=True)

    async def run_page(self, *, after_seq: int, limit: int) -> ExaminedRuns:
        return await self._database.read_with_retry(
            lambda connection: _read_run_page(connection, after_seq, limit), in_snapshot=True
        )

    async def event_page(self, *, after_seq: int, limit: int) -> ExaminedEvents:
        return await self._database.read_with_retry(
            lambda connection: _read_event_page(connection, after_seq, limit), in_snapshot=True
        )

    async def instances(self) -> Sequence[Instance]:
        rows = await self._database.fetch_rows(sa.select(*instances.c))
        return [Instance(*tuple(row)) for row in rows]

    async def lane_uses(self) -> Sequence[LaneUsage]:
        return await self._database.read_with_retry(_read_lane_uses, in_snapshot=True)


async def _read_run_page(connection: AsyncConnection, after_seq: int, limit: int) -> ExaminedRuns:
    _, pruned_seq = (await connection.execute(STREAM)).one()
    rows = (await connection.execute(RUNS, {"after_seq": after_seq, "limit": limit})).all()
    unknown_values = {
        row.id: value for row in rows if (value := _find_unknown_value(row)) is not None
    }
    ids = {"ids": [row.id for row in rows]}
    keys = {"keys": sorted({row.key for row in rows})}
    pairs = (await connection.execute(PREDECESSORS, ids)).all()
    predecessors = {run_id: earlier_id for run_id, earlier_id in pairs if earlier_id is not None}
    ids_with_changes = {"ids": sorted({*ids["ids"], *predecessors.values()})}
    heads: dict[Key, list[KeyHead]] = defaultdict(list)
    for row in await connection.execute(HEADS, keys):
        heads[row.head_key].append(KeyHead(*row))
    changes: dict[RunId, list[StateChange]] = defaultdict(list)
    for run_id, *change in await connection.execute(CHANGES, ids_with_changes):
        changes[run_id].append(StateChange(*change))
    waiting = await connection.execute(FIRST_WAITING, keys)
    ranges = await connection.execute(RUN_SEQ_RANGES, ids)
    unread = await connection.execute(UNREAD_COUNTS, ids)
    instance_rows = await connection.execute(sa.select(*instances.c))
    orphans = await connection.execute(ORPHANED_RUNS, ids)
    return ExaminedRuns(
        runs=[Run.from_row(tuple(row)) for row in rows if row.id not in unknown_values],
        unknown_values=unknown_values,
        last_seq=rows[-1].seq if rows else None,
        pruned_seq=pruned_seq,
        heads=heads,
        first_waiting_seqs={key: seq for key, seq in waiting},  # noqa: C416  # `dict` rejects rows.
        predecessor_ids=predecessors,
        run_seq_ranges={run_id: RunSeqRange(*values) for run_id, *values in ranges},
        changes=changes,
        unread_counts={run_id: count for run_id, count in unread},  # noqa: C416
        instances=[Instance(*row) for row in instance_rows],
        orphan_parent_ids={run_id: parent_id for run_id, parent_id in orphans},  # noqa: C416
    )


def _find_unknown_value(row: sa.Row[Any]) -> str | None:
    """Return the first mode, recovery or status that is not valid, or None if all are valid.

    A row with an invalid value cannot become a Run.
    """
    for name, members in _ENUM_COLUMNS:
        value: str = row._mapping[name]
        if value not in list(members):
            return value
    return None


async def _read_event_page(
    connection: AsyncConnection, after_seq: int, limit: int
) -> ExaminedEvents:
    last_seq, pruned_seq = (await connection.execute(STREAM)).one()
    after_seq = max(after_seq, pruned_seq)
    up_to_seq = min(after_seq + limit, last_seq)
    between = {"after_seq": after_seq, "up_to_seq": up_to_seq}
    slot_events = [SlotEvent(*row) for row in await connection.execute(SLOT_EVENTS, between)]
    if await connection.scalar(EVENT_COUNT, between) == up_to_seq - after_seq:
        return ExaminedEvents(after_seq, up_to_seq, None, slot_events)
    seqs = (await connection.scalars(EVENT_SEQS, between)).all()
    return ExaminedEvents(after_seq, up_to_seq, seqs, slot_events)


async def _read_lane_uses(connection: AsyncConnection) -> list[LaneUsage]:
    rows = (await connection.execute(LANES)).all()
    return [
        await _read_lane_use(connection, LaneRow(*lane), held) for *lane, held in map(tuple, rows)
    ]


async def _read_lane_use(connection: AsyncConnection, lane: LaneRow, held_count: int) -> LaneUsage:
    taken_seq: int | None = None
    is_changed = False
    if held_count > lane.max_concurrent:  # Otherwise the doctor does not need these values.
        taken_seq = await connection.scalar(LAST_TAKEN_SEQ, {"lane": lane.name})
        since = {"lane": lane.name, "after_seq": taken_seq or 0}
        is_changed = await connection.scalar(LANE_CHANGED, since) is not None
    return LaneUsage(
        lane=lane, held_count=held_count, last_taken_seq=taken_seq, is_changed_since=is_changed
    )
