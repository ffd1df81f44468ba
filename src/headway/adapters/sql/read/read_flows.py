"""Reading flows, their versions, tasks and node runs."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.read.keyset import ROW_COUNT, beyond, few_at_once
from headway.adapters.sql.read.read_runs import RECORD_COLUMNS, to_record
from headway.adapters.sql.tables import (
    flow_runs,
    flow_shared,
    flow_versions,
    flows,
    inbox,
    node_runs,
    runs,
    stream,
)
from headway.core.batch_state import InboxItem
from headway.core.command.flow.load_task import KeptTask
from headway.core.flow.engine.records import (
    SIGNAL,
    FlowRun,
    ListedVersion,
    NodeRunRow,
    SavedFlow,
    SavedVersion,
    from_row,
)
from headway.core.flow.engine.state import NodeRun
from headway.core.flow.engine.stored_state import first_row_needed
from headway.core.ids import Instant, RunId
from headway.ports.flow_reader import SharedState, Task, TaskFilter

_UNREAD: Final = (
    sa.select(*inbox.c)
    .where(inbox.c.run_id == sa.bindparam("run_id"), inbox.c.consumed_by.is_(None))
    .order_by(inbox.c.seq)
)
_SHARED: Final = sa.select(flow_shared.c.name, flow_shared.c.value).where(
    flow_shared.c.run_id == sa.bindparam("run_id")
)
_STREAM_SEQ: Final = sa.select(stream.c.seq)
_FLOW_RUN: Final = sa.select(*flow_runs.c).where(flow_runs.c.run_id == sa.bindparam("run_id"))
_ROWS: Final = (
    sa.select(*node_runs.c)
    .where(
        node_runs.c.run_id == sa.bindparam("run_id"), node_runs.c.seq > sa.bindparam("after_seq")
    )
    .order_by(node_runs.c.seq)
)
_TASKS: Final = sa.select(*RECORD_COLUMNS, *flow_runs.c).join(runs, runs.c.id == flow_runs.c.run_id)

_PLACES: Final = sa.select(flow_runs.c.updated_at, flow_runs.c.run_id).join(
    runs, runs.c.id == flow_runs.c.run_id
)
_MOVED_ORDER: Final = (flow_runs.c.updated_at, flow_runs.c.run_id)
_VERSIONS: Final = sa.select(*(flow_versions.c[name] for name in ListedVersion._fields))


class SqlFlowReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def has_flows(self) -> bool:
        return bool(await self._database.rows(sa.select(flows.c.name).limit(1)))

    async def flow(self, name: str) -> SavedFlow | None:
        rows = await self._database.rows(sa.select(*flows.c).where(flows.c.name == name))
        return SavedFlow._make(rows[0]) if rows else None

    async def flow_by_id(self, flow_id: str) -> SavedFlow | None:
        rows = await self._database.rows(sa.select(*flows.c).where(flows.c.id == flow_id))
        return SavedFlow._make(rows[0]) if rows else None

    async def flows(self, *, limit: int, after: str = "") -> Sequence[SavedFlow]:
        query = sa.select(*flows.c).where(flows.c.name > after)
        rows = await self._database.rows(query.order_by(flows.c.name).limit(limit))
        return [SavedFlow._make(row) for row in rows]

    async def version(self, flow: str, version: int) -> SavedVersion | None:
        found = (flow_versions.c.flow == flow) & (flow_versions.c.version == version)
        rows = await self._database.rows(sa.select(*flow_versions.c).where(found))
        return SavedVersion._make(rows[0]) if rows else None

    async def versions(
        self, flow: str, *, limit: int, before: int | None = None
    ) -> Sequence[ListedVersion]:
        query = _VERSIONS.where(flow_versions.c.flow == flow)
        if before is not None:
            query = query.where(flow_versions.c.version < before)
        rows = await self._database.rows(
            query.order_by(flow_versions.c.version.desc()).limit(limit)
        )
        return [ListedVersion._make(row) for row in rows]

    async def task(self, run_id: RunId) -> Task | None:
        rows = await self._database.rows(_TASKS.where(flow_runs.c.run_id == run_id))
        return _task(rows[0]) if rows else None

    async def tasks(
        self, wanted: TaskFilter, *, limit: int, after: tuple[Instant, RunId] | None = None
    ) -> AsyncIterator[Task]:
        is_wanted = _is_wanted(wanted)
        while limit > 0:
            places = await self._places(is_wanted, limit=limit, after=after)
            place_count = limit
            for first in range(0, len(places), ROW_COUNT):
                for task in await self._tasks_at(places[first : first + ROW_COUNT], is_wanted):
                    limit -= 1
                    yield task
            if len(places) < place_count:
                return
            after = places[-1]  # For those that were left out there are others.

    async def _places(
        self,
        is_wanted: Sequence[sa.ColumnElement[bool]],
        *,
        limit: int,
        after: tuple[Instant, RunId] | None,
    ) -> Sequence[tuple[Instant, RunId]]:
        query = _PLACES.where(*is_wanted).order_by(*(column.desc() for column in _MOVED_ORDER))
        if after is not None:
            query = query.where(beyond(_MOVED_ORDER, after, is_falling=True))
        rows = await self._database.rows(query.limit(limit))
        return [(row.updated_at, row.run_id) for row in rows]

    async def _tasks_at(
        self,
        places: Sequence[tuple[Instant, RunId]],
        is_wanted: Sequence[sa.ColumnElement[bool]],
    ) -> Sequence[Task]:
        is_one = flow_runs.c.run_id.in_([run_id for _, run_id in places])
        rows = await self._database.rows(_TASKS.where(is_one, *is_wanted))
        found = {task.flow_run.run_id: task for task in map(_task, rows)}
        return [found[place[1]]._replace(place=place) for place in places if place[1] in found]

    async def kept(self, run_id: RunId) -> KeptTask | None:
        async def read(connection: AsyncConnection) -> KeptTask | None:
            given = {"run_id": run_id}
            row = (await connection.execute(_FLOW_RUN, given)).one_or_none()
            if row is None:
                return None
            flow_run = FlowRun._make(row)
            rows: list[NodeRun] = []
            if flow_run.standing is not None:
                first_seq = first_row_needed(json.loads(flow_run.standing))
                if first_seq is not None:
                    found = await connection.execute(_ROWS, given | {"after_seq": first_seq - 1})
                    rows = [from_row(NodeRunRow._make(one)) for one in found]
            shared = await connection.execute(_SHARED, given)
            unread = await connection.execute(_UNREAD, given)
            return KeptTask(
                flow_run=flow_run,
                shared={json.loads(name): value for name, value in shared},
                rows=rows,
                unread=[InboxItem._make(one) for one in unread],
                now=await self._database.clock.read(connection),
            )

        return await self._database.with_retry(read, at_one_instant=True)

    async def shared(self, run_id: RunId) -> SharedState:
        async def read(connection: AsyncConnection) -> SharedState:
            shared = await connection.execute(_SHARED, {"run_id": run_id})
            unread = await connection.execute(_UNREAD, {"run_id": run_id})
            return SharedState(
                {json.loads(name): value for name, value in shared},
                [item.payload for item in map(InboxItem._make, unread) if item.kind == SIGNAL],
                (await connection.execute(_STREAM_SEQ)).scalar_one(),
            )

        return await self._database.with_retry(read, at_one_instant=True)

    def node_runs(self, run_id: RunId, *, limit: int, after_seq: int = 0) -> AsyncIterator[NodeRun]:
        async def read(count: int, after_seq: int) -> Sequence[NodeRun]:
            given = {"run_id": run_id, "after_seq": after_seq}
            rows = await self._database.rows(_ROWS.limit(count), given)
            return [from_row(NodeRunRow._make(row)) for row in rows]

        return few_at_once(read, lambda row: row.seq, limit=limit, after=after_seq)


def _is_wanted(wanted: TaskFilter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if wanted.statuses:
        found.append(runs.c.status.in_([status.value for status in wanted.statuses]))
    if wanted.flow is not None:
        found.append(flow_runs.c.flow == wanted.flow)
    if wanted.waits_for is not None:
        found += [flow_runs.c.waits_for == wanted.waits_for, runs.c.ended_at.is_(None)]
    return found


def _task(row: sa.Row[Any]) -> Task:
    flow_run = FlowRun._make(row[len(RECORD_COLUMNS) :])
    return Task(to_record(row), flow_run, (flow_run.updated_at, flow_run.run_id))
