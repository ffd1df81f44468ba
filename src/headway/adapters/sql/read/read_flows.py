"""Read flows, their versions, tasks and node runs."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.read.keyset import CHUNK_ROW_COUNT, iterate_in_chunks, keyset_condition
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
from headway.core.command.flow.load_task import StoredTask
from headway.core.flow.engine.records import (
    SIGNAL,
    FlowRun,
    NodeRunRow,
    SavedFlow,
    SavedVersion,
    VersionSummary,
    from_row,
)
from headway.core.flow.engine.state import NodeRun
from headway.core.flow.engine.stored_state import first_row_needed
from headway.core.ids import Instant, RunId
from headway.ports.flow_reader import FlowTask, SharedState, TaskFilter

_UNREAD: Final = (
    sa.select(*inbox.c)
    .where(inbox.c.run_id == sa.bindparam("run_id"), inbox.c.consumed_generation.is_(None))
    .order_by(inbox.c.seq)
)
_SHARED: Final = sa.select(flow_shared.c.name, flow_shared.c.value).where(
    flow_shared.c.run_id == sa.bindparam("run_id")
)
_STREAM_SEQ: Final = sa.select(stream.c.seq)
_FLOW_RUN: Final = sa.select(*flow_runs.c).where(flow_runs.c.run_id == sa.bindparam("run_id"))
_NODE_RUNS: Final = (
    sa.select(*node_runs.c)
    .where(
        node_runs.c.run_id == sa.bindparam("run_id"), node_runs.c.seq > sa.bindparam("after_seq")
    )
    .order_by(node_runs.c.seq)
)
_TASKS: Final = sa.select(*RECORD_COLUMNS, *flow_runs.c).join(runs, runs.c.id == flow_runs.c.run_id)

_TASK_POSITIONS: Final = sa.select(flow_runs.c.updated_at, flow_runs.c.run_id).join(
    runs, runs.c.id == flow_runs.c.run_id
)
_TASK_ORDER: Final = (flow_runs.c.updated_at, flow_runs.c.run_id)
_VERSIONS: Final = sa.select(*(flow_versions.c[name] for name in VersionSummary._fields))


class SqlFlowReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def has_flows(self) -> bool:
        return bool(await self._database.fetch_rows(sa.select(flows.c.name).limit(1)))

    async def flow(self, name: str) -> SavedFlow | None:
        rows = await self._database.fetch_rows(sa.select(*flows.c).where(flows.c.name == name))
        return SavedFlow._make(rows[0]) if rows else None

    async def flow_by_id(self, flow_id: str) -> SavedFlow | None:
        rows = await self._database.fetch_rows(sa.select(*flows.c).where(flows.c.id == flow_id))
        return SavedFlow._make(rows[0]) if rows else None

    async def flows(self, *, limit: int, after: str = "") -> Sequence[SavedFlow]:
        query = sa.select(*flows.c).where(flows.c.name > after)
        rows = await self._database.fetch_rows(query.order_by(flows.c.name).limit(limit))
        return [SavedFlow._make(row) for row in rows]

    async def version(self, flow: str, version: int) -> SavedVersion | None:
        is_version = (flow_versions.c.flow == flow) & (flow_versions.c.version == version)
        rows = await self._database.fetch_rows(sa.select(*flow_versions.c).where(is_version))
        return SavedVersion._make(rows[0]) if rows else None

    async def versions(
        self, flow: str, *, limit: int, before: int | None = None
    ) -> Sequence[VersionSummary]:
        query = _VERSIONS.where(flow_versions.c.flow == flow)
        if before is not None:
            query = query.where(flow_versions.c.version < before)
        rows = await self._database.fetch_rows(
            query.order_by(flow_versions.c.version.desc()).limit(limit)
        )
        return [VersionSummary._make(row) for row in rows]

    async def task(self, run_id: RunId) -> FlowTask | None:
        rows = await self._database.fetch_rows(_TASKS.where(flow_runs.c.run_id == run_id))
        return _to_task(rows[0]) if rows else None

    async def tasks(
        self, task_filter: TaskFilter, *, limit: int, after: tuple[Instant, RunId] | None = None
    ) -> AsyncIterator[FlowTask]:
        conditions = _filter_conditions(task_filter)
        while limit > 0:
            positions = await self._read_positions(conditions, limit=limit, after=after)
            position_count = limit
            for first in range(0, len(positions), CHUNK_ROW_COUNT):
                for task in await self._read_tasks_at(
                    positions[first : first + CHUNK_ROW_COUNT], conditions
                ):
                    limit -= 1
                    yield task
            if len(positions) < position_count:
                return
            # Tasks that have changed since their positions were read are replaced by later ones.
            after = positions[-1]

    async def _read_positions(
        self,
        conditions: Sequence[sa.ColumnElement[bool]],
        *,
        limit: int,
        after: tuple[Instant, RunId] | None,
    ) -> Sequence[tuple[Instant, RunId]]:
        query = _TASK_POSITIONS.where(*conditions).order_by(
            *(column.desc() for column in _TASK_ORDER)
        )
        if after is not None:
            query = query.where(keyset_condition(_TASK_ORDER, after, is_descending=True))
        rows = await self._database.fetch_rows(query.limit(limit))
        return [(row.updated_at, row.run_id) for row in rows]

    async def _read_tasks_at(
        self,
        positions: Sequence[tuple[Instant, RunId]],
        conditions: Sequence[sa.ColumnElement[bool]],
    ) -> Sequence[FlowTask]:
        """Read the tasks at `positions`. Leave out tasks that no longer match `conditions`."""
        is_listed = flow_runs.c.run_id.in_([run_id for _, run_id in positions])
        rows = await self._database.fetch_rows(_TASKS.where(is_listed, *conditions))
        tasks = {task.flow_run.run_id: task for task in map(_to_task, rows)}
        return [
            tasks[run_id]._replace(cursor=(updated_at, run_id))
            for updated_at, run_id in positions
            if run_id in tasks
        ]

    async def stored_task(self, run_id: RunId) -> StoredTask | None:
        async def read(connection: AsyncConnection) -> StoredTask | None:
            parameters = {"run_id": run_id}
            row = (await connection.execute(_FLOW_RUN, parameters)).one_or_none()
            if row is None:
                return None
            flow_run = FlowRun._make(row)
            rows: list[NodeRun] = []
            if flow_run.standing is not None:
                first_seq = first_row_needed(json.loads(flow_run.standing))
                if first_seq is not None:
                    node_run_rows = await connection.execute(
                        _NODE_RUNS, parameters | {"after_seq": first_seq - 1}
                    )
                    rows = [from_row(NodeRunRow._make(node_run)) for node_run in node_run_rows]
            shared = await connection.execute(_SHARED, parameters)
            unread = await connection.execute(_UNREAD, parameters)
            return StoredTask(
                flow_run=flow_run,
                shared={json.loads(name): value for name, value in shared},
                rows=rows,
                unread=[InboxItem._make(item) for item in unread],
                now=await self._database.clock.read(connection),
            )

        return await self._database.read_with_retry(read, in_snapshot=True)

    async def shared_state(self, run_id: RunId) -> SharedState:
        async def read(connection: AsyncConnection) -> SharedState:
            shared = await connection.execute(_SHARED, {"run_id": run_id})
            unread = await connection.execute(_UNREAD, {"run_id": run_id})
            return SharedState(
                {json.loads(name): value for name, value in shared},
                [item.payload for item in map(InboxItem._make, unread) if item.kind == SIGNAL],
                (await connection.execute(_STREAM_SEQ)).scalar_one(),
            )

        return await self._database.read_with_retry(read, in_snapshot=True)

    def node_runs(self, run_id: RunId, *, limit: int, after_seq: int = 0) -> AsyncIterator[NodeRun]:
        async def read(count: int, after_seq: int) -> Sequence[NodeRun]:
            parameters = {"run_id": run_id, "after_seq": after_seq}
            rows = await self._database.fetch_rows(_NODE_RUNS.limit(count), parameters)
            return [from_row(NodeRunRow._make(row)) for row in rows]

        return iterate_in_chunks(read, lambda row: row.seq, limit=limit, after=after_seq)


def _filter_conditions(task_filter: TaskFilter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if task_filter.statuses:
        conditions.append(runs.c.status.in_([status.value for status in task_filter.statuses]))
    if task_filter.flow is not None:
        conditions.append(flow_runs.c.flow == task_filter.flow)
    if task_filter.waits_for is not None:
        conditions += [flow_runs.c.waits_for == task_filter.waits_for, runs.c.ended_at.is_(None)]
    return conditions


def _to_task(row: sa.Row[Any]) -> FlowTask:
    flow_run = FlowRun._make(row[len(RECORD_COLUMNS) :])
    return FlowTask(to_record(row), flow_run, (flow_run.updated_at, flow_run.run_id))
