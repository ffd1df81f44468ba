"""What a driver reads of its task, by the door through which it writes.

So those of many tasks are read together, by a few statements, and only for who holds the claim. A
driver asks for nothing else at the same time: what it reads is what it has written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headway.core.batch_state import BatchState, InboxItem
from headway.core.command.protocol import RowsNeeded
from headway.core.flow.engine.records import EndedChild, FlowRun
from headway.core.flow.engine.state import NodeRun
from headway.core.ids import Instant, RunId
from headway.core.run.run import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """All that a driver, or a reader of its state, needs of a task, as of one instant."""

    flow_run: FlowRun
    shared: Mapping[str, str]
    """Keys, and values in JSON."""
    rows: Sequence[NodeRun]
    """Those that its present node needs."""
    unread: Sequence[InboxItem]
    now: Instant


@dataclass(frozen=True, slots=True)
class LoadTask:
    claim: Claim

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)
        needs.inbox_run_ids[self.claim.run_id] = None
        needs.task_ids[self.claim.run_id] = None

    def decide(self, world: BatchState) -> StoredTask | Literal[False]:
        """False: the claim is void."""
        run = world.held_run(self.claim)
        if run is None:
            return False
        tasks = world.tasks
        return StoredTask(
            flow_run=tasks.flow_runs[run.id],
            shared=tasks.shared.get(run.id, {}),
            rows=tasks.rows.get(run.id, ()),
            unread=tuple(world.inbox[run.id]),
            now=world.now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUpdates:
    unread: Sequence[InboxItem]
    """In order."""
    ended_children: Mapping[RunId, EndedChild] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadTaskUpdates:
    """What is in the inbox of a task, and which of its children have ended."""

    claim: Claim
    child_ids: tuple[RunId, ...] = ()

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)
        needs.inbox_run_ids[self.claim.run_id] = None
        needs.ended_ids |= dict.fromkeys(self.child_ids)

    def decide(self, world: BatchState) -> TaskUpdates | Literal[False]:
        """False: the claim is void."""
        run = world.held_run(self.claim)
        if run is None:
            return False
        known = world.tasks.ended_children
        ended = {run_id: known[run_id] for run_id in self.child_ids if run_id in known}
        return TaskUpdates(unread=tuple(world.inbox[run.id]), ended_children=ended)
