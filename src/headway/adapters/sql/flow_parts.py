"""Flows and their tasks, as a batch locks and writes them."""

from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from headway.adapters.sql.links.link import Link
from headway.adapters.sql.statements import (
    Delete,
    Insert,
    Query,
    Row,
    Update,
    Write,
    in_list,
)
from headway.adapters.sql.tables import (
    flow_runs,
    flow_shared,
    flow_versions,
    flows,
    node_runs,
    workers,
)
from headway.core.command.command import Needs
from headway.core.flow.kept import (
    FLOW_JOB,
    FlowChanges,
    FlowRun,
    NodeRunRow,
    SavedFlow,
    SavedVersion,
    SharedValue,
)
from headway.core.worker.worker import SavedWorker
from headway.core.world import World

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
_FLOW_ADDED: Final = Insert(flows, SavedFlow._fields)
_FLOW_CHANGED: Final = Update(flows, SavedFlow._fields[1:], ("name", "revision"))
_VERSIONS: Final = Insert(flow_versions, SavedVersion._fields)
_RUNS_ADDED: Final = Insert(flow_runs, FlowRun._fields)
_SHARED_ADDED: Final = Insert(flow_shared, SharedValue._fields)
_SHARED_CHANGED: Final = Update(flow_shared, ("value",), ("run_id", "name"))
_SHARED_REMOVED: Final = Delete(flow_shared, ("run_id", "name"))
_ROWS: Final = Insert(node_runs, NodeRunRow._fields)


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


def flow_plan(changes: FlowChanges) -> Iterator[tuple[Write, Sequence[Row]]]:
    """Who may write a task is said by the guards of its run, in the same transaction."""
    for flow in changes.flows.values():
        if flow.revision == 1:
            yield _FLOW_ADDED, [tuple(flow)]
        else:
            yield _FLOW_CHANGED, [(*flow[1:], flow.name, flow.revision - 1)]
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


def removed_flow_runs(world: World) -> Iterator[tuple[Write, Sequence[Row]]]:
    """With runs that are removed goes what they had as tasks."""
    removed = [
        (run_id,) for run_id in world.changes.runs_removed if world.loaded[run_id].job == FLOW_JOB
    ]
    for table in (flow_runs, flow_shared, node_runs):
        yield Delete(table, ("run_id",)), removed
