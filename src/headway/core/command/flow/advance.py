"""One step of a flow task: everything that it changes, in one transaction (R5.4)."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from headway.core.batch_state import BatchState, InboxItem
from headway.core.command.flow.publish import flow_changes
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.cancel import RequestCancel, request_cancel
from headway.core.command.run.child import PARENT_ENDED
from headway.core.command.run.notify_parent import notify_parent
from headway.core.command.run.settle import Settled, TooLate
from headway.core.command.run.wait import park, wake
from headway.core.document import Document
from headway.core.flow.engine.records import FlowChanges, NodeRunRow, SharedValue, encode_json
from headway.core.ids import Instant, RunId
from headway.core.run.events import EventType
from headway.core.run.run import Claim, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger


class ContinueTask(NamedTuple):
    """Its driver goes on with it."""


class ParkTask(NamedTuple):
    """It waits, and nobody holds it meanwhile."""

    kind: str
    wake_at: Instant | None
    event_payload: Document
    """For whoever watches: what it waits for."""


class EndTask(NamedTuple):
    error: Document | None
    """None: it has succeeded."""
    result: Document


class Advanced(NamedTuple):
    unread_count: int
    """What has come into its inbox meanwhile."""
    now: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceFlow:
    claim: Claim
    parent_id: RunId | None
    columns: dict[str, Any]
    """Of the task, as they are from now on."""
    shared_added: tuple[SharedValue, ...] = ()
    shared_changed: tuple[SharedValue, ...] = ()
    shared_removed: tuple[tuple[RunId, str], ...] = ()
    node_run_rows: tuple[NodeRunRow, ...] = ()
    consumed_seqs: tuple[int, ...] = ()
    """Of the inbox: what this step has taken in."""
    cancel_child_ids: tuple[RunId, ...] = ()
    """Children for whose end the task does not wait any more."""
    next_action: ContinueTask | ParkTask | EndTask

    def need(self, needs: RowsNeeded) -> None:
        is_end = isinstance(self.next_action, EndTask)
        needs.add_run(
            self.claim.run_id, may_end=is_end, may_wake=isinstance(self.next_action, ParkTask)
        )
        for child_id in self.cancel_child_ids:
            needs.add_run(child_id, may_end=True)
        if is_end and self.parent_id is not None:
            needs.add_run(self.parent_id, may_wake=True)

    def decide(self, world: BatchState) -> Advanced | Settled | TooLate | Literal[False]:
        """False: it may not go on, or park, any more. Nothing was changed.

        A success is put off while there is anything that its driver has not taken in.
        """
        run = world.held_run(self.claim)
        if isinstance(self.next_action, EndTask):
            return self._end(world, run, self.next_action)
        if run is None or run.status is not RunStatus.RUNNING:
            return False
        run = self._apply_step(world, run)
        if isinstance(self.next_action, ContinueTask):
            return Advanced(run.unread_count, world.now)
        run = park(world, run, self.next_action.wake_at, attempt=run.attempt)
        run = world.emit(run, EventType.PARKED, self.next_action.event_payload)
        is_due = self.next_action.wake_at is not None and self.next_action.wake_at <= world.now
        if run.unread_count or is_due:
            wake(world, run)
        return Advanced(run.unread_count, world.now)

    def _end(
        self, world: BatchState, run: Run | None, end: EndTask
    ) -> Advanced | Settled | TooLate:
        may_end = run is not None and run.status in (RunStatus.RUNNING, RunStatus.CANCELLING)
        if run is None or not may_end:
            now = world.run(self.claim.run_id)
            return TooLate(None if now is None else now.status)
        is_unread = run.unread_count > len(self.consumed_seqs)
        is_put_off = is_unread and end.error is None and run.status is RunStatus.RUNNING
        run = self._apply_step(world, run)
        if is_put_off:
            # Its params are not loaded: by a timer that is due it is claimed in another batch.
            run = park(world, run, world.now, attempt=run.attempt)
            run = world.emit(run, EventType.PARKED, "{}")
            return Advanced(run.unread_count, world.now)
        if end.error is None:
            moved = world.move(run, Trigger.COMPLETE, documents={"result": end.result})
        else:
            details = f',"error":{end.error}'
            moved = world.move(run, Trigger.FAIL, documents={"error": end.error}, details=details)
        assert moved is not None
        notify_parent(world, moved.id)
        return Settled(moved.status)

    def _apply_step(self, world: BatchState, run: Run) -> Run:
        changes: FlowChanges = flow_changes(world)
        changes.runs_changed.append((run.id, {**self.columns, "updated_at": world.now}))
        changes.shared_added += self.shared_added
        changes.shared_changed += self.shared_changed
        changes.shared_removed += self.shared_removed
        changes.rows += self.node_run_rows
        for child_id in self.cancel_child_ids:
            request_cancel(world, RequestCancel(run_id=child_id, reason=PARENT_ENDED))
        # A step is progress: it resets both counts.
        others: dict[str, Any] = {"death_count": 0, "stop_count": 0}
        if self.consumed_seqs:
            others["unread_count"] = run.unread_count - len(self.consumed_seqs)
            self._consume(world, run)
        if not self.node_run_rows:
            return world.update(run, **others)
        for row in self.node_run_rows:
            run = world.emit(run, EventType.NODE_RUN, _encode_node_run(row), **others)
        return run

    def _consume(self, world: BatchState, run: Run) -> None:
        for seq in self.consumed_seqs:
            item = InboxItem(run.id, seq, "", None, "", "", world.now, run.generation)
            world.changes.inbox_items_consumed.append(item)
        if run.id in world.inbox:
            unread, world.inbox[run.id] = world.inbox[run.id], []
            consumed = world.consumed_items.setdefault(run.id, [])
            for item in unread:
                (consumed if item.seq in self.consumed_seqs else world.inbox[run.id]).append(item)


def _encode_node_run(row: NodeRunRow) -> str:
    """Of values that were checked when they came in; written by hand, once for every step."""
    return (
        f'{{"seq":{row.seq},"node":{encode_json(row.node_key)},"branch":{encode_json(row.branch)},'
        f'"attempt":{row.attempt},"status":{encode_json(row.status)},"action":{encode_json(row.action)},'
        f'"error":{encode_json(row.error)},"worker":{encode_json(row.worker_id)}}}'
    )
