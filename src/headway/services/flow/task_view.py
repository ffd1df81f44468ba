"""Build views of tasks for readers, from the rows in which a task is stored."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from headway.core.flow.engine.records import SIGNAL
from headway.core.flow.engine.run_state import retry_state, visible_shared
from headway.core.flow.engine.state import FlowState, NodeRun, NodeRunStatus
from headway.core.flow.engine.step import create_state
from headway.core.flow.engine.stored_state import load_state
from headway.core.ids import Instant, RunId
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.ports.flow_reader import FlowReader, FlowTask
from headway.services.flow.definition_cache import DefinitionCache
from headway.services.flow.step_writer import to_stored_state
from headway.services.flow.waiting_nodes import APPROVAL, AwaitedWorker, awaited_key, awaited_worker

ROW_COUNT_MAX: Final = 10_000
"""How many node runs are read by default."""
CANCELED: Final = "canceled"
"""The last action of a canceled task, and the action of its last node run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    run: Run
    flow: str
    version: int
    version_id: str
    params: dict[str, Any]
    shared: dict[str, Any]
    """The shared state. While the task is active, `_rt` contains the run state of the node."""
    node: str
    last_action: str
    step_count: int
    """The number of node runs of the task."""
    retry_state: dict[str, Any]
    waits_for: str | None
    awaited_key: str | None
    """The key that a signal must set for the task to continue, or None."""
    awaited_worker: AwaitedWorker | None
    """The details of the wait if the current node waits for a worker, or None."""
    error: dict[str, Any] | None
    rerun_of: RunId | None
    updated_at: Instant
    position: tuple[Instant, RunId]
    """The position in lists of tasks, from which the next page continues."""

    @property
    def id(self) -> RunId:
        return self.run.id

    @property
    def status(self) -> RunStatus:
        return self.run.status


class TaskViewBuilder:
    def __init__(self, flows: FlowReader, definitions: DefinitionCache) -> None:
        self._flow_reader = flows
        self._definitions = definitions

    async def build(self, task: FlowTask) -> TaskView:
        return (await self.build_with_state(task))[0]

    async def build_with_state(self, task: FlowTask) -> tuple[TaskView, FlowState]:
        """Return the view of a task, and the flow state from which the view was made."""
        state = await self._load_state(task)
        return await self._build_view(task, state), state

    async def _build_view(self, task: FlowTask, state: FlowState) -> TaskView:
        record, flow_run, position = task
        is_active = record.run.is_active
        return TaskView(
            run=record.run,
            flow=flow_run.flow,
            version=flow_run.version,
            version_id=await self._definitions.version_id(flow_run.flow, flow_run.version),
            params=json.loads(record.params),
            shared=visible_shared(state),
            node=state.frames[0].node.key,
            last_action=CANCELED if record.run.status is RunStatus.CANCELED else state.last_action,
            step_count=state.row_count,
            retry_state=retry_state(state),
            waits_for=flow_run.waits_for if is_active else None,
            awaited_key=awaited_key(state),
            awaited_worker=awaited_worker(state) if is_active else None,
            error=None if record.error is None else json.loads(record.error),
            rerun_of=flow_run.rerun_of,
            updated_at=flow_run.updated_at,
            position=position,
        )

    async def node_runs(
        self, task: FlowTask, *, limit: int, after_seq: int
    ) -> AsyncIterator[NodeRun]:
        """Yield node runs in the order in which they ended, including a cancellation (R5.4).

        The node run of a cancellation is built here. It is not stored, because a task may be
        canceled while no process executes it.
        """
        run = task.record.run
        async for row in self._flow_reader.node_runs(run.id, limit=limit, after_seq=after_seq):
            limit -= 1
            yield row
        if run.status is RunStatus.CANCELED and limit > 0:
            state = await self._load_state(task)
            if state.row_count >= after_seq:
                yield _canceled_node_run(task, state)

    async def _load_state(self, task: FlowTask) -> FlowState:
        record, flow_run, _ = task
        run = record.run
        flow = await self._definitions.flow(flow_run.flow, flow_run.version)
        stored = await self._flow_reader.stored_task(run.id)
        assert stored is not None
        parts = to_stored_state(stored)
        params = json.loads(record.params)
        state = (
            create_state(flow, params)
            if parts is None
            else load_state(flow, params, parts, stored.rows)
        )
        if run.is_active:
            # Accepted signals are visible to readers before the driver has applied them.
            for item in stored.unread:
                if item.kind == SIGNAL:
                    signal = json.loads(item.payload)
                    state.shared[signal["key"]] = signal["value"]
        else:
            state.status = run.status
        return state


def _canceled_node_run(task: FlowTask, state: FlowState) -> NodeRun:
    run, cancel = task.record.run, task.record.cancel
    reason = "" if cancel is None else json.loads(cancel).get("reason", "")
    frame = state.frames[-1]
    assert run.ended_at is not None
    return NodeRun(
        seq=state.row_count + 1,
        node_key=state.frames[0].node.key,
        path=tuple(outer.node.key for outer in state.frames),
        branch=None,
        attempt=frame.try_no,
        status=NodeRunStatus.CANCELED,
        prep={},
        input=frame.input,
        output=None,
        error=reason or CANCELED,
        action=CANCELED,
        started_at=frame.entered_at if frame.is_entered else run.ended_at,
        finished_at=run.ended_at,
        worker=None,
        is_settled=True,
    )


def is_waiting_for_approval(view: TaskView) -> bool:
    return view.waits_for == APPROVAL and view.awaited_key is not None
