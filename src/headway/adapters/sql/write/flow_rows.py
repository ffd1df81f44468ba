"""Flows and their tasks, as a batch locks and writes them."""

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
    integer,
    text,
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
from headway.core.batch_state import World
from headway.core.command.protocol import Needs
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
_WORKER_ADDED: Final = Insert(workers, SavedWorker._fields)
_WORKER_CHANGED: Final = Update(workers, SavedWorker._fields[1:], ("id",))
_WORKER_REMOVED: Final = Delete(workers, ("id",))
_FLOW_ADDED: Final = Insert(flows, SavedFlow._fields)
_FLOW_CHANGED: Final = Update(flows, SavedFlow._fields[1:], ("name", "revision"))
_VERSIONS: Final = Insert(flow_versions, SavedVersion._fields)
_RUNS_ADDED: Final = Insert(flow_runs, FlowRun._fields)
_TASK_ENDED: Final = Update(flow_runs, ("updated_at",), ("run_id",))
_SHARED_ADDED: Final = Insert(flow_shared, SharedValue._fields)
_SHARED_CHANGED: Final = Update(flow_shared, ("value",), ("run_id", "name"))
_SHARED_REMOVED: Final = Delete(flow_shared, ("run_id", "name"))
_ROWS: Final = Insert(node_runs, NodeRunRow._fields)


_TASKS: Final = Query(sa.select(*flow_runs.c).where(in_list(flow_runs.c.run_id, "ids")))
_SHARED: Final = Query(sa.select(*flow_shared.c).where(in_list(flow_shared.c.run_id, "ids")))
_NEEDED: Final = Query(
    sa.select(*node_runs.c)
    .where(node_runs.c.run_id == text("id"), node_runs.c.seq >= integer("seq"))
    .order_by(node_runs.c.seq)
)
_ENDED: Final = Query(
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


async def need_parents(link: Link, needs: Needs) -> None:
    """Before any run is locked: whose child a run is never changes."""
    for (parent_id,) in await link.fetch(_PARENTS, {"ids": list(needs.child_ids)}):
        needs.run(parent_id, may_wake=True)


async def load_flows(link: Link, needs: Needs, world: World) -> None:
    """Flows, and then workers: both are locked before any run."""
    if needs.flows:
        for row in await link.fetch(_FLOWS, {"names": list(needs.flows)}):
            flow = SavedFlow(*row)
            world.flows[flow.name] = flow
    if needs.workers:
        for row in await link.fetch(_WORKERS, {"ids": list(needs.workers)}):
            worker = SavedWorker(*row)
            world.workers[worker.id] = worker


async def load_tasks(link: Link, needs: Needs, world: World) -> None:
    """What drivers read. Their runs are locked: who holds one is alone in writing its task."""
    tasks = world.tasks
    if needs.task_ids:
        ids = {"ids": list(needs.task_ids)}
        for row in await link.fetch(_TASKS, ids):
            task = FlowRun(*row)
            tasks.flow_runs[task.run_id] = task
        for run_id, name, value in await link.fetch(_SHARED, ids):
            tasks.shared.setdefault(run_id, {})[json.loads(name)] = value
        wanted = [
            {"id": task.run_id, "seq": first_seq}
            for task in tasks.flow_runs.values()
            if task.standing is not None
            and (first_seq := first_row_needed(json.loads(task.standing))) is not None
        ]
        for row in await link.fetch_each(_NEEDED, wanted) if wanted else ():
            tasks.rows.setdefault(row[0], []).append(from_row(NodeRunRow(*row)))
    if needs.ended_ids:
        for run_id, status, *documents in await link.fetch(_ENDED, {"ids": list(needs.ended_ids)}):
            tasks.ended[run_id] = EndedChild(RunStatus(status), *documents)


def flow_plan(changes: FlowChanges) -> Iterator[tuple[Write, Sequence[Row]]]:
    """Who may write a task is said by the guards of its run, in the same transaction."""
    for flow in changes.flows.values():
        if flow.revision == 1:
            yield _FLOW_ADDED, [tuple(flow)]
        else:
            yield _FLOW_CHANGED, [(*flow[1:], flow.name, flow.revision - 1)]
    # Who is forgotten goes first: it may have come again in this batch.
    yield _WORKER_REMOVED, [(worker_id,) for worker_id in changes.workers_removed]
    yield _WORKER_ADDED, list(changes.workers_added.values())
    yield _WORKER_CHANGED, [(*one[1:], one.id) for one in changes.workers.values()]
    yield _VERSIONS, changes.versions
    yield _RUNS_ADDED, changes.runs_added
    shapes: dict[tuple[str, ...], list[Row]] = {}
    for run_id, change in changes.runs_changed:
        shapes.setdefault(tuple(change), []).append((*change.values(), run_id))
    for columns, rows in shapes.items():
        yield Update(flow_runs, columns, ("run_id",)), rows
    yield _SHARED_REMOVED, changes.shared_removed
    yield _SHARED_ADDED, changes.shared_added
    yield _SHARED_CHANGED, [(one.value, one.run_id, one.name) for one in changes.shared_changed]
    yield _ROWS, changes.rows


def ended_flow_runs(world: World) -> Iterator[tuple[Write, Sequence[Row]]]:
    """An end that no driver has written moves the task all the same, and its place in lists."""
    changes = world.changes
    written = set() if changes.flow is None else {run_id for run_id, _ in changes.flow.runs_changed}
    ended = [
        (change["ended_at"], run_id)
        for run_id, change in changes.runs_changed.items()
        if change.get("ended_at") is not None
        and world.loaded[run_id].job == FLOW_JOB
        and run_id not in written
    ]
    yield _TASK_ENDED, ended


def removed_flow_runs(world: World) -> Iterator[tuple[Write, Sequence[Row]]]:
    """With runs that are removed goes what they had as tasks."""
    removed = [
        (run_id,) for run_id in world.changes.runs_removed if world.loaded[run_id].job == FLOW_JOB
    ]
    for table in (flow_runs, flow_shared, node_runs):
        yield Delete(table, ("run_id",)), removed
