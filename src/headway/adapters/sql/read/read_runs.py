"""Read runs, lanes, keys and instances.

Lists use keyset pagination and never count a whole table.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.read.keyset import iterate_in_chunks
from headway.adapters.sql.read.page_runs import page_queries
from headway.adapters.sql.read.read_board import HAS_NOT_STARTED, IS_OPEN, LANES, to_lane_view
from headway.adapters.sql.read.read_events import read_event_time
from headway.adapters.sql.read.read_recent import read_recent
from headway.adapters.sql.read.read_situation import read_situation
from headway.adapters.sql.tables import (
    RUN_COLUMNS,
    idempotency_keys,
    inbox,
    instances,
    interrupts,
    lanes,
    runs,
    saved_keys,
    stream,
)
from headway.core.batch_state import MESSAGE, InboxItem, Instance, Interrupt, SavedKey
from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId
from headway.core.run.explain import Situation
from headway.core.run.run import RUN_DOCUMENTS, Run, RunRecord
from headway.core.run.status import RunStatus
from headway.ports.run_reader import HeldRun, LaneCounts, RunFilter, Snapshot, WatchedRun

# Lists leave out the traceback, which is long and only shown for a single run.
RECORD_COLUMNS: Final = [*RUN_COLUMNS, *(runs.c[name] for name in RUN_DOCUMENTS)]
_RECORDS: Final = sa.select(*RECORD_COLUMNS)
_RECORD: Final = sa.select(*RECORD_COLUMNS, runs.c.traceback)
_STATES: Final = sa.select(*RUN_COLUMNS)
_WATCHED_RUNS: Final = sa.select(runs.c.id, runs.c.run_seq, runs.c.status)
_HELD_RUNS: Final = sa.select(*(runs.c[name] for name in HeldRun._fields))
# These use the two indexes that contain active runs only. They compare with a value instead of
# IS NOT NULL, and sort by an expression. Otherwise SQLite would read a million ended runs in the
# order of `seq`.
_IS_HEAD: Final = runs.c.head_key > sa.literal_column("''")
_IS_ACTIVE: Final = _IS_HEAD | (runs.c.waiting_key > sa.literal_column("''"))
_CHILDREN: Final = sa.select(runs.c.id).order_by(runs.c.seq)
_INSTANCES: Final = sa.select(*instances.c).order_by(instances.c.started_at, instances.c.id)
# For each saved key, the last run that was not rejected and the last one that started. Each needs
# a few reads of the index of keys.
_NEWER: Final = runs.alias("newer")


def _last_seqs(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    newest = (
        sa.select(_NEWER.c.seq)
        .where(_NEWER.c.key == saved_keys.c.key, condition)
        .order_by(_NEWER.c.seq.desc())
        .limit(sa.literal_column("1"))
        .correlate(saved_keys)
    )
    return sa.select(newest.scalar_subquery()).select_from(saved_keys)


_LAST_SEQS: Final = _last_seqs(_NEWER.c.status != RunStatus.REJECTED.value)
_LAST_STARTED_SEQS: Final = _last_seqs(_NEWER.c.started_at.is_not(None))
_UNINDEXED_SEQ: Final = runs.c.seq + sa.literal_column("0")
_ID_CHUNK_COUNT: Final = 500
_ROW_CHUNK_COUNT: Final = 500


class SqlRunReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def now(self) -> Instant:
        clock = self._database.clock
        local = clock.local_now()
        return await self._database.read_with_retry(clock.read) if local is None else local

    async def run(self, run_id: RunId) -> RunRecord | None:
        rows = await self._database.fetch_rows(_RECORD.where(runs.c.id == run_id))
        return to_record(rows[0])._replace(traceback=rows[0].traceback) if rows else None

    def list_runs(
        self, run_filter: RunFilter, *, limit: int, before_seq: int | None = None
    ) -> AsyncIterator[RunRecord]:
        async def read(count: int, before_seq: int | None) -> Sequence[RunRecord]:
            queries = page_queries(_RECORDS, run_filter, limit=count, before_seq=before_seq)

            async def find(connection: AsyncConnection) -> list[RunRecord]:
                query = queries[0]
                if len(queries) > 1:  # Read only the seqs first, because most rows are left out.
                    seqs: list[int] = []
                    for page_query in queries:
                        seqs += await connection.scalars(page_query.with_only_columns(runs.c.seq))
                    query = _RECORDS.where(runs.c.seq.in_(sorted(seqs)[-count:]))
                records = map(to_record, await connection.execute(query))
                return sorted(records, key=lambda record: record.run.seq, reverse=True)

            # In a snapshot, because the status of a run could change between two queries.
            return await self._database.read_with_retry(find, in_snapshot=len(queries) > 1)

        return iterate_in_chunks(read, lambda record: record.run.seq, limit=limit, after=before_seq)

    async def snapshot(self) -> Snapshot:
        return await self._database.read_with_retry(_read_snapshot, in_snapshot=True)

    async def situation(self, run_id: RunId) -> Situation | None:
        return await self._database.read_with_retry(
            lambda connection: read_situation(connection, run_id), in_snapshot=True
        )

    async def lanes(self) -> Sequence[LaneCounts]:
        return await self._database.read_with_retry(_read_lanes)

    async def lane_names(self) -> list[LaneName]:
        rows = await self._database.fetch_rows(sa.select(lanes.c.name).order_by(lanes.c.name))
        return [LaneName(name) for (name,) in rows]

    def keys(self, *, limit: int, after: Key | None = None) -> AsyncIterator[SavedKey]:
        async def read(count: int, after: Key | None) -> Sequence[SavedKey]:
            query = sa.select(*saved_keys.c).order_by(saved_keys.c.key).limit(count)
            if after is not None:
                query = query.where(saved_keys.c.key > after)
            return [SavedKey._make(row) for row in await self._database.fetch_rows(query)]

        return iterate_in_chunks(read, lambda row: row.key, limit=limit, after=after)

    async def saved_key(self, key: Key) -> SavedKey | None:
        rows = await self._database.fetch_rows(
            sa.select(*saved_keys.c).where(saved_keys.c.key == key)
        )
        return SavedKey._make(rows[0]) if rows else None

    async def inbox(self, run_id: RunId) -> Sequence[InboxItem]:
        query = sa.select(*inbox.c).where(inbox.c.run_id == run_id).order_by(inbox.c.seq)
        return [InboxItem._make(row) for row in await self._database.fetch_rows(query)]

    def messages(
        self, run_id: RunId, *, limit: int, after_seq: int | None = None
    ) -> AsyncIterator[InboxItem]:
        async def read(count: int, after_seq: int | None) -> Sequence[InboxItem]:
            query = sa.select(*inbox.c).where(inbox.c.run_id == run_id, inbox.c.kind == MESSAGE)
            if after_seq is not None:
                query = query.where(inbox.c.seq > after_seq)
            rows = await self._database.fetch_rows(query.order_by(inbox.c.seq).limit(count))
            return [InboxItem._make(row) for row in rows]

        return iterate_in_chunks(read, lambda item: item.seq, limit=limit, after=after_seq)

    async def interrupts(self, run_id: RunId) -> Sequence[Interrupt]:
        query = (
            sa.select(*interrupts.c)
            .join(runs, runs.c.id == interrupts.c.run_id)
            .where(interrupts.c.run_id == run_id, IS_OPEN)
            .order_by(interrupts.c.asked_at, interrupts.c.call_id)
        )
        return [Interrupt._make(row) for row in await self._database.fetch_rows(query)]

    async def instances(self) -> Sequence[Instance]:
        return [Instance._make(row) for row in await self._database.fetch_rows(_INSTANCES)]

    async def runs_due(self, now: Instant, *, limit: int) -> Sequence[Run]:
        query = _STATES.where(runs.c.due_at <= now).order_by(runs.c.due_at).limit(limit)
        return [Run.from_row(row) for row in await self._database.fetch_rows(query)]

    async def held_runs(self, instance_id: InstanceId, *, limit: int) -> Sequence[HeldRun]:
        # Only heads are held, so the index of heads is used.
        is_held = _IS_HEAD & (runs.c.instance_id == instance_id)
        rows = await self._database.fetch_rows(
            _HELD_RUNS.where(is_held).order_by(_UNINDEXED_SEQ).limit(limit)
        )
        return [_to_held_run(row) for row in rows]

    async def filter_held_runs(
        self, instance_id: InstanceId, run_ids: Collection[RunId]
    ) -> Sequence[HeldRun]:
        rows = await self._fetch_by_ids(
            run_ids, _HELD_RUNS.where(runs.c.instance_id == instance_id)
        )
        return [_to_held_run(row) for row in rows]

    async def watched_runs(self, run_ids: Collection[RunId]) -> Mapping[RunId, WatchedRun]:
        rows = await self._fetch_by_ids(run_ids, _WATCHED_RUNS)
        return {RunId(row.id): WatchedRun(row.run_seq, RunStatus(row.status)) for row in rows}

    async def ancestors(self, run_id: RunId, *, limit: int) -> Sequence[Run]:
        async def read(connection: AsyncConnection) -> Sequence[Run]:
            child = runs.alias("child")
            ancestors: list[Run] = []
            for _ in range(limit):
                last_id = ancestors[-1].id if ancestors else run_id
                query = _STATES.where(child.c.id == last_id, runs.c.id == child.c.parent_id)
                row = (await connection.execute(query)).one_or_none()
                if row is None:
                    break
                ancestors.append(Run.from_row(tuple(row)))
            return ancestors

        return await self._database.read_with_retry(read)

    async def children_to_cancel(self, parent_id: RunId, *, limit: int) -> Sequence[RunId]:
        is_cancelling = runs.c.status == RunStatus.CANCELLING.value
        query = _CHILDREN.where(runs.c.child_of == parent_id, ~is_cancelling).limit(limit)
        return [run_id for (run_id,) in await self._database.fetch_rows(query)]

    async def queued_runs(
        self, lane: LaneName, *, limit: int, before_seq: int | None = None
    ) -> Sequence[Run]:
        query = _STATES.where(runs.c.lane == lane, HAS_NOT_STARTED)
        if before_seq is not None:
            query = query.where(runs.c.seq < before_seq)
        rows = await self._database.fetch_rows(query.order_by(_UNINDEXED_SEQ.desc()).limit(limit))
        return [Run.from_row(row) for row in rows]

    async def oldest_runs(self, *, after_seq: int, limit: int) -> Sequence[Run]:
        query = _STATES.where(runs.c.seq > after_seq).order_by(runs.c.seq).limit(limit)
        return [Run.from_row(row) for row in await self._database.fetch_rows(query)]

    async def oldest_idempotency_keys(self, *, before: Instant, limit: int) -> Sequence[str]:
        query = sa.select(idempotency_keys.c.idempotency_key).where(idempotency_keys.c.at <= before)
        rows = await self._database.fetch_rows(query.order_by(idempotency_keys.c.at).limit(limit))
        return [key for (key,) in rows]

    async def count_idempotency_keys(self, *, before: Instant) -> int:
        query = sa.select(sa.func.count()).where(idempotency_keys.c.at <= before)
        ((count,),) = await self._database.fetch_rows(query)
        return int(count)

    async def _fetch_by_ids(
        self, run_ids: Collection[RunId], query: sa.Select[Any]
    ) -> Sequence[sa.Row[Any]]:
        ids, rows = list(run_ids), list[sa.Row[Any]]()
        for first in range(0, len(ids), _ID_CHUNK_COUNT):
            chunk = ids[first : first + _ID_CHUNK_COUNT]
            rows += await self._database.fetch_rows(query.where(runs.c.id.in_(chunk)))
        return rows


async def _read_snapshot(connection: AsyncConnection) -> Snapshot:
    seq, epoch = (await connection.execute(sa.select(stream.c.seq, stream.c.epoch))).one()
    keys = await connection.execute(sa.select(*saved_keys.c).order_by(saved_keys.c.key))
    active = await connection.execute(_RECORDS.where(_IS_ACTIVE).order_by(_UNINDEXED_SEQ))
    recent = await read_recent(connection, seq=seq)
    last_runs: dict[RunId, RunRecord] = {}
    # One query each, because a combined condition could not use an index.
    for seqs in (_LAST_SEQS, _LAST_STARTED_SEQS, recent.last_seqs):
        rows = await connection.execute(_RECORDS.where(runs.c.seq.in_(seqs)))
        last_runs |= {record.run.id: record for record in await _to_records(rows.all())}
    live_instances = await connection.execute(_INSTANCES.where(instances.c.is_dead == 0))
    return Snapshot(
        seq=seq,
        epoch=epoch,
        lanes=await _read_lanes(connection),
        keys=[SavedKey(*row) for row in keys],
        runs=await _to_records(active.all()),
        last_runs=list(last_runs.values()),
        instances=[Instance._make(row) for row in live_instances],
        seq_written_at=await read_event_time(connection, seq),
        recent_keys=recent.keys,
        has_older_keys=recent.has_older,
    )


async def _to_records(rows: Sequence[sa.Row[Any]]) -> list[RunRecord]:
    """Convert rows in chunks, so that thousands of them do not block the event loop."""
    records: list[RunRecord] = []
    for first in range(0, len(rows), _ROW_CHUNK_COUNT):
        records += map(to_record, rows[first : first + _ROW_CHUNK_COUNT])
        await asyncio.sleep(0)
    return records


async def _read_lanes(connection: AsyncConnection) -> list[LaneCounts]:
    return [to_lane_view(row) for row in await connection.execute(LANES)]


def _to_held_run(row: sa.Row[Any]) -> HeldRun:
    return HeldRun(row.id, row.token, RunStatus(row.status), row.slot, row.unread_count)


def to_record(row: sa.Row[Any]) -> RunRecord:
    """Return the record from a row whose first columns are RECORD_COLUMNS."""
    documents = row[len(RUN_COLUMNS) : len(RECORD_COLUMNS)]
    return RunRecord(Run.from_row(row[: len(RUN_COLUMNS)]), *documents)
