"""Load and write the rows of flows, flow tasks and workers in a batch."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from headway.adapters.sql.statements import (
    Delete,
    Insert,
    Query,
    Row,
    Update,
    Write,
    in_list,
    integer_param,
    text_param,
)
from headway.adapters.sql.tables import (
    flow_runs,
    flow_shared,
    flow_versions,
    flows,
    node_runs,
    runs,
    workers,
)
from headway.adapters.sql.write.links.driver_link import Link
from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.flow.engine.records import (
    FLOW_JOB,
    EndedChild,
    FlowChanges,
    FlowRun,
    NodeRunRow,
    SavedFlow,
    SavedVersion,
    SharedValue,
    from_row,
)
from headway.core.flow.engine.stored_state import first_row_needed
from headway.core.run.status import RunStatus
from headway.core.worker.saved_worker import SavedWorker

_FLOWS: Final = Query(
    sa.select(*flows.c)
    .where(in_list(flows.c.name, "names"))
    .order_by(flows.c.name)
    .with_for_update()
)
_WORKERS: Final = Query(
    sa.select(*workers.c)
    .where(in_list(workers.c.id, "ids"))
    .order_by(workers.c.id)
    .with_for_update()
)
_INSERT_WORKER: Final = Insert(workers, SavedWorker._fields)
_UPDATE_WORKER: Final = Update(workers, SavedWorker._fields[1:], ("id",))
_DELETE_WORKER: Final = Delete(workers, ("id",))
_INSERT_FLOW: Final = Insert(flows, SavedFlow._fields)
_UPDATE_FLOW: Final = Update(flows, SavedFlow._fields[1:], ("name", "revision"))
_INSERT_VERSION: Final = Insert(flow_versions, SavedVersion._fields)
_INSERT_FLOW_RUN: Final = Insert(flow_runs, FlowRun._fields)
_UPDATE_ENDED_TASK: Final = Update(flow_runs, ("updated_at",), ("run_id",))
_INSERT_SHARED: Final = Insert(flow_shared, SharedValue._fields)
_UPDATE_SHARED: Final = Update(flow_shared, ("value",), ("run_id", "name"))
_DELETE_SHARED: Final = Delete(flow_shared, ("run_id", "name"))
_INSERT_NODE_RUN: Final = Insert(node_runs, NodeRunRow._fields)


_TASKS: Final = Query(sa.select(*flow_runs.c).where(in_list(flow_runs.c.run_id, "ids")))
_SHARED: Final = Query(sa.select(*flow_shared.c).where(in_list(flow_shared.c.run_id, "ids")))
_NODE_RUNS: Final = Query(
    sa.select(*node_runs.c)
    .where(node_runs.c.run_id == text_param("id"), node_runs.c.seq >= integer_param("seq"))
    .order_by(node_runs.c.seq)
)
_ENDED_RUNS: Final = Query(
    sa.select(runs.c.id, runs.c.status, runs.c.result, runs.c.error).where(
        in_list(runs.c.id, "ids"), runs.c.ended_at.is_not(None)
    )
)


_PARENTS: Final = Query(
    sa.select(runs.c.parent_id).where(
        in_list(runs.c.id, "ids"),
        runs.c.job == sa.literal_column(f"'{FLOW_JOB}'"),
        runs.c.parent_id.is_not(None),
    )
)


async def add_needed_parents(link: Link, needed: RowsNeeded) -> None:
    """Add the parents of the flow tasks in `needed.child_ids` to the rows to load.

    Called before any run is locked. That is safe, because a run's parent never changes.
    """
    for (parent_id,) in await link.fetch(_PARENTS, {"ids": list(needed.child_ids)}):
        needed.add_run(parent_id, may_wake=True)


async def load_flows(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    """Lock and load flows, then workers. Both are locked before any run."""
    if needed.flows:
        for row in await link.fetch(_FLOWS, {"names": list(needed.flows)}):
            flow = SavedFlow(*row)
            batch.flows[flow.name] = flow
    if needed.workers:
        for row in await link.fetch(_WORKERS, {"ids": list(needed.workers)}):
            worker = SavedWorker(*row)
            batch.workers[worker.id] = worker


async def load_tasks(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    """Load the stored state of flow tasks, and the results of their ended child runs.

    The runs of the tasks are locked, so only this batch can write the tasks.
    """
    tasks = batch.tasks
    if needed.task_ids:
        ids = {"ids": list(needed.task_ids)}
        for row in await link.fetch(_TASKS, ids):
            task = FlowRun(*row)
            tasks.flow_runs[task.run_id] = task
        for run_id, name, value in await link.fetch(_SHARED, ids):
            tasks.shared.setdefault(run_id, {})[json.loads(name)] = value
        parameters = [
            {"id": task.run_id, "seq": first_seq}
            for task in tasks.flow_runs.values()
            if task.standing is not None
            and (first_seq := first_row_needed(json.loads(task.standing))) is not None
        ]
        for row in await link.fetch_each(_NODE_RUNS, parameters) if parameters else ():
            tasks.rows.setdefault(row[0], []).append(from_row(NodeRunRow(*row)))
    if needed.ended_ids:
        for run_id, status, *documents in await link.fetch(
            _ENDED_RUNS, {"ids": list(needed.ended_ids)}
        ):
            tasks.ended_children[run_id] = EndedChild(RunStatus(status), *documents)


def plan_flow_changes(changes: FlowChanges) -> Iterator[tuple[Write, Sequence[Row]]]:
    """Plan the writes of flows, workers and tasks.

    Tasks need no guards of their own: the guards of their runs protect them in the transaction.
    """
    for flow in changes.flows.values():
        if flow.revision == 1:
            yield _INSERT_FLOW, [tuple(flow)]
        else:
            yield _UPDATE_FLOW, [(*flow[1:], flow.name, flow.revision - 1)]
    # Deletes come first: a removed worker may have registered again in the same batch.
    yield _DELETE_WORKER, [(worker_id,) for worker_id in changes.workers_removed]
    yield _INSERT_WORKER, list(changes.workers_added.values())
    yield _UPDATE_WORKER, [(*worker[1:], worker.id) for worker in changes.workers.values()]
    yield _INSERT_VERSION, changes.versions
    yield _INSERT_FLOW_RUN, changes.runs_added
    rows_by_columns: dict[tuple[str, ...], list[Row]] = {}
    for run_id, change in changes.runs_changed:
        rows_by_columns.setdefault(tuple(change), []).append((*change.values(), run_id))
    for columns, rows in rows_by_columns.items():
        yield Update(flow_runs, columns, ("run_id",)), rows
    yield _DELETE_SHARED, changes.shared_removed
    yield _INSERT_SHARED, changes.shared_added
    yield (
        _UPDATE_SHARED,
        [(shared.value, shared.run_id, shared.name) for shared in changes.shared_changed],
    )
    yield _INSERT_NODE_RUN, changes.rows


def plan_ended_tasks(batch: BatchState) -> tuple[Write, Sequence[Row]]:
    """Plan updates of `updated_at` for ended tasks that the batch does not write otherwise.

    Lists of tasks are ordered by `updated_at`.
    """
    flow = batch.changes.flow
    written = set() if flow is None else {run_id for run_id, _ in flow.runs_changed}
    ended = [run_id for run_id in batch.changes.ended_task_ids if run_id not in written]
    return _UPDATE_ENDED_TASK, [(batch.now, run_id) for run_id in ended]


def plan_removed_tasks(batch: BatchState) -> Iterator[tuple[Write, Sequence[Row]]]:
    """Plan the removal of all flow rows of removed runs."""
    removed = [
        (run_id,)
        for run_id in batch.changes.runs_removed
        if batch.loaded_runs[run_id].job == FLOW_JOB
    ]
    for table in (flow_runs, flow_shared, node_runs):
        yield Delete(table, ("run_id",)), removed
