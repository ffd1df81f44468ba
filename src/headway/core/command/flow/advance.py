"""One step of a flow task: all of its changes are written in one transaction (R5.4)."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from headway.core.batch_state import BatchState, InboxItem
from headway.core.command.flow.publish import flow_changes
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.cancel import RequestCancel, request_cancel
from headway.core.command.run.child import PARENT_ENDED
from headway.core.command.run.end_run import notify_parent
from headway.core.command.run.settle import Settled, TooLate
from headway.core.command.run.wait import park, wake
from headway.core.document import Document
from headway.core.event_payloads import NodeRan, Parked, StateDetails
from headway.core.flow.engine.records import FlowChanges, NodeRunRow, SharedValue
from headway.core.flow.engine.state import NodeRunStatus
from headway.core.ids import Instant, RunId
from headway.core.run.run import Claim, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger


class ContinueTask(NamedTuple):
    """The driver continues with the next step."""


class ParkTask(NamedTuple):
    """The task waits, and no process holds it meanwhile."""

    kind: str
    wake_at: Instant | None
    node: str
    """The node at which the task waits."""


class EndTask(NamedTuple):
    error: Document | None
    """The error of a failed task, or None if the task has succeeded."""
    result: Document


class Advanced(NamedTuple):
    unread_count: int
    """The number of inbox items that the driver has not read."""
    now: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceFlow:
    """Write one step of a flow task, then continue, park or end the task."""

    claim: Claim
    parent_id: RunId | None
    columns: dict[str, Any]
    """The changed columns of the task, with their new values."""
    shared_added: tuple[SharedValue, ...] = ()
    shared_changed: tuple[SharedValue, ...] = ()
    shared_removed: tuple[tuple[RunId, str], ...] = ()
    node_run_rows: tuple[NodeRunRow, ...] = ()
    consumed_seqs: tuple[int, ...] = ()
    """The `seq` of each inbox item that this step has consumed."""
    cancel_child_ids: tuple[RunId, ...] = ()
    """Children that the task no longer waits for. The step cancels them."""
    next_action: ContinueTask | ParkTask | EndTask

    @property
    def may_free_capacity(self) -> bool:
        # Most steps continue their task, which keeps its slot.
        return not isinstance(self.next_action, ContinueTask) or bool(self.cancel_child_ids)

    def document_length(self) -> int:
        # A single shared value can be as large as the whole state of a task may be.
        length = sum([len(row.output) + len(row.input) for row in self.node_run_rows])
        for shared in (*self.shared_added, *self.shared_changed):
            length += len(shared.value)
        if isinstance(self.next_action, EndTask):
            length += len(self.next_action.result)
        return length

    def need(self, rows: RowsNeeded) -> None:
        is_end = isinstance(self.next_action, EndTask)
        rows.add_run(
            self.claim.run_id, may_end=is_end, may_wake=isinstance(self.next_action, ParkTask)
        )
        for child_id in self.cancel_child_ids:
            rows.add_run(child_id, may_end=True)
        if is_end and self.parent_id is not None:
            rows.add_run(self.parent_id, may_wake=True)

    def decide(self, batch: BatchState) -> Advanced | Settled | TooLate | Literal[False]:
        """Write the step. Return Advanced, or Settled if the task has ended.

        Return False if the task may not continue or park, or TooLate if it may not end. Nothing was
        changed then. A success is postponed while the inbox has items that the driver has not
        consumed: the task is parked and due at once, and the result is Advanced.
        """
        run = batch.held_run(self.claim)
        if isinstance(self.next_action, EndTask):
            return self._end(batch, run, self.next_action)
        if run is None or run.status is not RunStatus.RUNNING:
            return False
        run = self._apply_step(batch, run)
        if isinstance(self.next_action, ContinueTask):
            return Advanced(run.unread_count, batch.now)
        run = park(batch, run, self.next_action.wake_at, attempt=run.attempt)
        run = batch.emit(run, Parked(self.next_action.kind, self.next_action.node))
        is_due = self.next_action.wake_at is not None and self.next_action.wake_at <= batch.now
        if run.unread_count or is_due:
            wake(batch, run)
        return Advanced(run.unread_count, batch.now)

    def _end(
        self, batch: BatchState, run: Run | None, end: EndTask
    ) -> Advanced | Settled | TooLate:
        may_end = run is not None and run.status in (RunStatus.RUNNING, RunStatus.CANCELLING)
        if run is None or not may_end:
            current = batch.run(self.claim.run_id)
            return TooLate(None if current is None else current.status)
        has_unread = run.unread_count > len(self.consumed_seqs)
        is_postponed = has_unread and end.error is None and run.status is RunStatus.RUNNING
        run = self._apply_step(batch, run)
        if is_postponed:
            # Set a due timer instead of calling `wake`: a claim in this batch would need params,
            # which are not loaded.
            run = park(batch, run, batch.now, attempt=run.attempt)
            run = batch.emit(run, Parked())
            return Advanced(run.unread_count, batch.now)
        if end.error is None:
            moved = batch.move(run, Trigger.COMPLETE, documents={"result": end.result})
        else:
            documents: dict[str, str] = {"error": end.error}
            details: StateDetails = {"error": end.error}
            moved = batch.move(run, Trigger.FAIL, documents=documents, details=details)
        assert moved is not None
        notify_parent(batch, moved.id)
        return Settled(moved.status)

    def _apply_step(self, batch: BatchState, run: Run) -> Run:
        changes: FlowChanges = flow_changes(batch)
        changes.runs_changed.append((run.id, {**self.columns, "updated_at": batch.now}))
        changes.shared_added += self.shared_added
        changes.shared_changed += self.shared_changed
        changes.shared_removed += self.shared_removed
        changes.rows += self.node_run_rows
        for child_id in self.cancel_child_ids:
            request_cancel(batch, RequestCancel(run_id=child_id, reason=PARENT_ENDED))
        # A step is progress: it resets `death_count` and `stop_count`.
        others: dict[str, Any] = {"death_count": 0, "stop_count": 0}
        if self.consumed_seqs:
            others["unread_count"] = run.unread_count - len(self.consumed_seqs)
            self._consume(batch, run)
        if not self.node_run_rows:
            return batch.update(run, **others)
        for row in self.node_run_rows:
            run = batch.emit(run, _to_payload(row), **others)
        return run

    def _consume(self, batch: BatchState, run: Run) -> None:
        for seq in self.consumed_seqs:
            item = InboxItem(run.id, seq, "", None, "", "", batch.now, run.generation)
            batch.changes.inbox_items_consumed.append(item)
        if run.id in batch.inbox:
            unread, batch.inbox[run.id] = batch.inbox[run.id], []
            consumed = batch.consumed_items.setdefault(run.id, [])
            for item in unread:
                (consumed if item.seq in self.consumed_seqs else batch.inbox[run.id]).append(item)


def _to_payload(row: NodeRunRow) -> NodeRan:
    return NodeRan(
        row.seq,
        row.node_key,
        row.branch,
        row.attempt,
        NodeRunStatus(row.status),
        row.action,
        row.error,
        row.worker_id,
    )
