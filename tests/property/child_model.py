"""The model of cancels and children: started once, counted, ended with their parents."""

from headway.core.command.run.cancel import CancelResult, RequestCancel
from headway.core.command.run.child import (
    CancelChild,
    ChildFound,
    ChildMismatch,
    ConfirmChildrenEnded,
    ParentNotRunning,
    StartChild,
    StartChildResult,
    TooManyChildren,
    make_child_id,
)
from headway.core.command.run.submit import Accepted
from headway.core.ids import RunId
from headway.core.run.status import RunStatus
from tests.property.model import CANCELLING, QUEUED, RUNNING, ModelRun
from tests.property.schedule_model import ScheduleModel


class ChildModel(ScheduleModel):
    def cancel(self, run: ModelRun, command: RequestCancel) -> CancelResult:
        intent = {"files": command.files.value, "reason": command.reason, "by": command.by}
        run.documents["cancel"] = intent
        if run.status is QUEUED:
            self.move(run, RunStatus.CANCELED, cancel=intent)
            return CancelResult.CANCELED
        run.cancel_deadline_at = self.after(command.grace_s)
        run.wants_slot, run.ready_seq, run.window = False, None, False
        self.move(run, CANCELLING, cancel=intent)
        if run.token:
            return CancelResult.REQUESTED
        run.generation += 1
        self.move(run, RunStatus.CANCELED)
        return CancelResult.CANCELED

    def children_of(self, parent_id: RunId) -> list[ModelRun]:
        return [run for run in self.runs if run.is_active and run.command.parent_id == parent_id]

    def start_child(self, command: StartChild) -> StartChildResult:
        parent = self.held(command.claim)
        if parent is None or parent.status is not RUNNING:
            return ParentNotRunning()
        ids = [make_child_id(parent.id, command.step, n + 1) for n in range(command.attempt)]
        started = [run for run in map(self.run, ids) if run is not None]
        if started:
            last = started[-1]
            is_good = last.is_active or last.status is RunStatus.SUCCEEDED
            if is_good or last.id == command.submission.run_id:
                is_same = last.command.job == command.submission.job
                return ChildFound(last.id) if is_same else ChildMismatch(last.id, last.command.job)
        if len(self.children_of(parent.id)) >= command.active_count_max:
            return TooManyChildren(command.active_count_max)
        answer = self.submit(command.submission)
        if isinstance(answer, Accepted):
            parent.is_parent = True
        return answer

    def cancel_child(self, command: CancelChild) -> CancelResult:
        run, parent = self.run(command.run_id), self.run(command.parent_id)
        if run is None:
            return CancelResult.NOT_FOUND
        goes_on = parent is not None and parent.children_ending_since is None
        if goes_on or run not in self.children_of(command.parent_id):
            return CancelResult.TOO_LATE
        if run.status is CANCELLING:
            return CancelResult.ALREADY_REQUESTED
        grace_s = 30.0
        if parent is not None and parent.cancel_deadline_at is not None:
            grace_s = max(0, parent.cancel_deadline_at - self.now) / 1_000_000
        return self.cancel(
            run,
            RequestCancel(
                run_id=run.id,
                files=command.files,
                reason="parent_ended",
                by=command.by,
                grace_s=grace_s,
            ),
        )

    def forget_children(self, command: ConfirmChildrenEnded) -> bool:
        run = self.run(command.run_id)
        if run is None or run.children_ending_since is None:
            return False
        run.is_parent, run.children_ending_since = False, None
        return True
