"""Read the state of a flow task for its driver, through the same queue as its writes.

The reads of many tasks thus share a few statements, and only the holder of the claim gets a result.
A driver has no other command in flight meanwhile, so it reads all of its own writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from headway.core.batch_state import BatchState, InboxItem
from headway.core.command.protocol import HolderCommand, RowsNeeded
from headway.core.flow.engine.records import EndedChild, FlowRun
from headway.core.flow.engine.state import NodeRun
from headway.core.ids import Instant, RunId
from headway.core.run.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """The state of a flow task at one instant, for its driver and for readers."""

    flow_run: FlowRun
    shared: Mapping[str, str]
    """The shared state: maps each key to its value as JSON text."""
    rows: Sequence[NodeRun]
    """The node runs that the current node needs."""
    unread: Sequence[InboxItem]
    now: Instant


@dataclass(frozen=True, slots=True)
class LoadTask(HolderCommand[StoredTask | Literal[False]]):
    """Read the state of a task. The result is False if the claim is stale."""

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)
        rows.inbox_run_ids[self.claim.run_id] = None
        rows.task_ids[self.claim.run_id] = None

    def decide_held(self, batch: BatchState, run: Run) -> StoredTask:
        tasks = batch.tasks
        return StoredTask(
            flow_run=tasks.flow_runs[run.id],
            shared=tasks.shared.get(run.id, {}),
            rows=tasks.rows.get(run.id, ()),
            unread=tuple(batch.inbox[run.id]),
            now=batch.now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUpdates:
    unread: Sequence[InboxItem]
    """The unread inbox items, in order."""
    ended_children: Mapping[RunId, EndedChild] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadTaskUpdates(HolderCommand[TaskUpdates | Literal[False]]):
    """Read the unread inbox items of a task, and which of its children have ended.

    The result is False if the claim is stale.
    """

    child_ids: tuple[RunId, ...] = ()

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)
        rows.inbox_run_ids[self.claim.run_id] = None
        rows.ended_ids |= dict.fromkeys(self.child_ids)

    def decide_held(self, batch: BatchState, run: Run) -> TaskUpdates:
        ended = batch.tasks.ended_children
        own_ended = {run_id: ended[run_id] for run_id in self.child_ids if run_id in ended}
        return TaskUpdates(unread=tuple(batch.inbox[run.id]), ended_children=own_ended)
