"""The required effect of each command, in the plainest way.

The oracle shares only the vocabulary with the code under test: commands, answers and
enumerations. It was written from the promises of the commands, not from their code.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from headway.core.batch_state import InboxItem
from headway.core.command.admin.instance import (
    DeclareDead,
    HandOver,
    RegisterInstance,
    ReleaseOrphan,
    RenewInstance,
    RetireInstance,
)
from headway.core.command.admin.lane_limits import ClearRuns, ConfigureLanes, ProposeLimit, SetLane
from headway.core.command.admin.prune import PruneEvents, PruneIdempotencyKeys, PruneRuns
from headway.core.command.admin.save_key import DeleteKey, SaveKey
from headway.core.command.admin.schedules import FireSchedule
from headway.core.command.run.cancel import (
    CancelResult,
    ForceCancel,
    RequestCancel,
    StopKey,
    StoppedRun,
)
from headway.core.command.run.child import CancelChild, ConfirmChildrenEnded, StartChild
from headway.core.command.run.claim import ClaimedRun, ClaimRuns, InstanceLost
from headway.core.command.run.end_run import Ended, Expire
from headway.core.command.run.idempotency import IdempotencyMismatch, Repeated
from headway.core.command.run.inbox import ConsumeInbox, Posted, PostToInbox
from headway.core.command.run.report import AppendEvents, SaveCheckpoint, SaveProgress, SetWindow
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail, Settled, TooLate
from headway.core.command.run.submit import (
    Accepted,
    Busy,
    Joined,
    LaneQueueFull,
    Steered,
    Submit,
    SubmitResult,
)
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot, Retry, Wake
from headway.core.document import Document
from headway.core.ids import Instant, LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import Recovery, RunMode
from headway.core.run.status import RunStatus
from tests.property.inbox_model import InboxModel
from tests.property.model import CANCELLING, QUEUED, RUNNING, ModelRun


class Oracle(InboxModel):
    def apply(self, command: Any) -> Any:
        return _COMMANDS[type(command)](self, command)

    def submit(self, command: Submit) -> SubmitResult:
        if command.idempotency_key in self.remembered:
            run_id, earlier, _ = self.remembered[command.idempotency_key]
            is_same = earlier.fingerprint == command.fingerprint
            return Repeated(run_id) if is_same else IdempotencyMismatch(run_id)
        head = self.head_of(command.key)
        policy = command.on_conflict
        if head is not None and policy is OnConflict.JOIN:
            self.remember(command, head.id)
            return Joined(head.id)
        takes_messages = head is not None and head.status is RUNNING and head.window == 1
        if head is not None and policy is OnConflict.STEER and takes_messages:
            posted = self.post(
                head, PostToInbox(run_id=head.id, payload=command.params, by=command.by)
            )
            if isinstance(posted, Posted):
                self.remember(command, head.id)
                return Steered(head.id, posted.seq)
        refusal = self.refusal(command, head)
        if refusal is not None:
            if command.is_unattended:
                reason = "busy" if isinstance(refusal, Busy) else "no_room"
                self.add(command, RunStatus.REJECTED, reason=reason).ended_at = self.now
            return refusal
        carried: list[InboxItem] = []
        if policy is OnConflict.REPLACE:
            for rival in self.active_of(command.key):
                carried += self.carry_over(rival, command.run_id)
            for rival in reversed(self.active_of(command.key)):
                if rival.status is not CANCELLING:
                    self.cancel(
                        rival, RequestCancel(run_id=rival.id, reason="replaced", by=command.by)
                    )
        self.lanes.setdefault(command.lane, self.lane(command.lane))
        run = self.add(command, QUEUED)
        for item in carried:
            again = PostToInbox(run_id=run.id, payload=Document(item.payload), by=item.by)
            self.post(run, again, carried_from=str(item.run_id))
        return Accepted(run.id, run.seq)

    def refusal(self, command: Submit, head: ModelRun | None) -> Busy | LaneQueueFull | None:
        if head is not None and command.on_conflict is OnConflict.REJECT:
            return Busy(head.id)
        limit = self.lane(command.lane).max_queued
        if limit is None:
            return None
        queued_count = self.queued_count(command.lane)
        is_key_free = head is None
        if head is not None and command.on_conflict is OnConflict.REPLACE:
            rivals = self.active_of(command.key)
            queued_count -= sum(r.lane == command.lane and r.status is QUEUED for r in rivals)
            is_key_free = not head.token  # Without a holder it ends at once.
        # A run that finds both the key and a slot free does not wait.
        free_count = self.free_count(command.lane) if is_key_free else 0
        return None if queued_count < limit + free_count else LaneQueueFull(command.lane, limit)

    def add(self, command: Submit, status: RunStatus, **details: str) -> ModelRun:
        run = ModelRun(command, seq=self.seq + 1, queued_at=self.now, status=status)
        run.documents["params"] = command.params
        if command.timeout_s is not None:
            run.timeout_us = round(command.timeout_s * 1_000_000)
        if status is QUEUED:
            run.ready_seq = None if self.active_of(command.key) else run.seq
            if command.queue_timeout_s is not None:
                run.queue_deadline_at = self.after(command.queue_timeout_s)
        self.runs.append(run)
        self.emit(run, "run_state_changed", {"from": None, "to": status.value, **details})
        self.remember(command, run.id)
        return run

    def remember(self, command: Submit, run_id: RunId) -> None:
        if command.idempotency_key is not None:
            self.remembered[command.idempotency_key] = (run_id, command, self.now)

    def claim(self, command: ClaimRuns) -> tuple[ClaimedRun, ...] | InstanceLost:
        instance = self.instances.get(command.instance_id)
        if instance is None or instance.is_dead or instance.lease_expires_at <= self.now:
            return InstanceLost()
        taken = [run for lane in command.lanes for run in self.choose_claimed(lane, command)]
        return tuple(self.take(run, command, f"{command.nonce}-{n}") for n, run in enumerate(taken))

    def choose_claimed(self, lane: LaneName, command: ClaimRuns) -> list[ModelRun]:
        taken: list[ModelRun] = []
        left_count = self.free_count(lane)
        for run in self.ready(lane):
            is_anothers = run.instance_id not in (None, command.instance_id)
            is_mine = not is_anothers and run.command.job in command.jobs
            if left_count and len(taken) < command.count and (is_mine or is_anothers):
                left_count -= 1  # A slot is reserved for a waiting run that another instance holds.
                taken += [run] if is_mine else []
        return taken

    def take(self, run: ModelRun, command: ClaimRuns, token: str) -> ClaimedRun:
        is_resumed = bool(run.token)
        run.has_slot, run.wants_slot, run.ready_seq, run.queue_deadline_at = True, False, None, None
        if not is_resumed:
            run.token, run.generation = token, run.generation + 1
            run.instance_id = command.instance_id
        if run.run_deadline_at is None and run.timeout_us is not None:
            run.run_deadline_at = Instant(self.now + run.timeout_us)
        if run.status is QUEUED:
            run.started_at = self.now
            if run.command.mode is RunMode.CONTINUE:
                self.continue_from_last_started(run)
            self.move(run, RUNNING)
        else:
            self.emit(run, "run_resumed", {"generation": run.generation})
        submit = run.command
        return ClaimedRun(
            run_id=submit.run_id,
            key=submit.key,
            lane=submit.lane,
            job=submit.job,
            mode=submit.mode,
            token=run.token,
            generation=run.generation,
            attempt=run.attempt,
            params=submit.params,
            checkpoint=run.documents.get("checkpoint"),
            run_deadline_at=run.run_deadline_at,
            is_resumed=is_resumed,
            unread_count=run.unread_count,
            started_at=run.started_at,
        )

    def continue_from_last_started(self, run: ModelRun) -> None:
        for earlier in self.runs[: self.runs.index(run)]:
            if earlier.key == run.key and earlier.started_at is not None:
                run.continued_from = earlier.id
                run.documents["checkpoint"] = earlier.documents.get("checkpoint")

    def settle(self, command: Complete | Fail | ConfirmCancel) -> Settled | TooLate:
        run = self.held(command.claim)
        is_early = isinstance(command, ConfirmCancel) and run is not None and run.status is RUNNING
        if run is None or is_early:
            run = self.run(command.claim.run_id)
            return TooLate(None if run is None else run.status)
        match command:
            case Complete():
                run.documents["result"] = command.result
                self.move(run, RunStatus.SUCCEEDED)
            case Fail():
                run.documents["error"] = command.error
                if command.traceback is not None:
                    run.documents["traceback"] = command.traceback
                self.move(run, RunStatus.FAILED, error=json.loads(command.error))
            case ConfirmCancel():
                self.move(run, RunStatus.CANCELED)
        return Settled(run.status)

    def request_cancel(self, command: RequestCancel) -> CancelResult:
        run = self.run(command.run_id)
        if run is None:
            return CancelResult.NOT_FOUND
        if run.status is CANCELLING:
            return CancelResult.ALREADY_REQUESTED
        is_open = run.is_active and run.window != 3
        return self.cancel(run, command) if is_open else CancelResult.TOO_LATE

    def stop_key(self, command: StopKey) -> tuple[StoppedRun, ...]:
        stopped = []
        for run in reversed(self.active_of(command.key)):
            cancel = RequestCancel(
                run_id=run.id,
                files=command.files,
                reason=command.reason,
                by=command.by,
                grace_s=command.grace_s,
            )
            stopped.append(StoppedRun(run.id, self.request_cancel(cancel)))
        return tuple(stopped)

    def clear(self, command: ClearRuns) -> int:
        cleared = [self.run(run_id) for run_id in command.run_ids]
        queued = [
            run for run in cleared if run and run.status is QUEUED and run.lane == command.lane
        ]
        for run in queued:
            reason = f"lane {command.lane!r} was cleared before this run started"
            self.cancel(run, RequestCancel(run_id=run.id, reason=reason, by=command.by))
        return len(queued)

    def force_cancel(self, command: ForceCancel) -> bool:
        run = self.run(command.run_id)
        if run is None or run.status is not CANCELLING or not self._is_over(run.cancel_deadline_at):
            return False
        run.generation += 1
        self.move(run, RunStatus.CANCELED, forced=True)
        return True

    def expire(self, command: Expire) -> Ended | bool:
        run = self.run(command.run_id)
        if run is None or run.status not in (QUEUED, RUNNING):
            return False
        clock = "queue" if run.status is QUEUED else "execution"
        if not self._is_over(
            run.queue_deadline_at if run.status is QUEUED else run.run_deadline_at
        ):
            return False
        error = {"code": f"{clock}_timeout", "message": self._overdue(run)}
        run.documents["error"] = error
        self.move(run, RunStatus.TIMED_OUT, clock=clock, error=error)
        return _to_ended(run, error)

    def _overdue(self, run: ModelRun) -> str:
        command = run.command
        if run.status is QUEUED:
            waited_s = (self.now - run.queued_at) / 1_000_000
            limit_s = command.queue_timeout_s
            return f"waited {waited_s:.10g} s in the queue; its queue_timeout_s is {limit_s:.10g}"
        if run.generation > 1:
            return "its executions together took longer than its timeout_s"
        return f"executed for longer than its timeout_s, which is {command.timeout_s:.10g}"

    def wake(self, command: Wake) -> bool:
        run = self.run(command.run_id)
        if run is None or not run.is_parked:
            return False
        if run.wake_at is not None and not self._is_over(run.wake_at):
            return False
        self.make_ready(run, "run_woken", {})
        return True

    def _is_over(self, deadline: Instant | None) -> bool:
        return deadline is not None and deadline <= self.now

    def wait(self, command: ReleaseSlot | RequestSlot | Park | Retry) -> bool | str:
        run = self.held(command.claim)
        if run is None or run.status is not RUNNING:
            return "refused" if isinstance(command, RequestSlot) else False
        match command:
            case ReleaseSlot():
                if run.has_slot or run.wants_slot:
                    run.has_slot, run.wants_slot, run.ready_seq = False, False, None
                    self.emit(run, "run_waiting", {})
            case RequestSlot():
                if run.has_slot:
                    return "held"
                if not run.wants_slot:
                    self.make_ready(run, "run_woken", {})
                return "in_line"
            case Park():
                self._release(run, command.wake_at)
                run.death_count = run.stop_count = 0
                self.emit(run, "run_parked", {})
                if run.unread_count or self._is_over(run.wake_at):
                    self.make_ready(run, "run_woken", {})
            case Retry():
                self._release(run, self.after(command.delay_s))
                run.death_count = run.stop_count = 0
                if command.traceback is not None:
                    run.documents["traceback"] = command.traceback
                payload = {"attempt": run.attempt, "delay_s": command.delay_s}
                self.emit(run, "run_retried", payload | {"error": json.loads(command.error)})
                run.attempt += 1
                if self._is_over(run.wake_at):
                    self.make_ready(run, "run_woken", {})
        return True

    def _release(self, run: ModelRun, wake_at: Instant | None) -> None:
        run.token, run.instance_id, run.ready_seq = "", None, None
        run.has_slot = run.wants_slot = run.window = False
        if run.run_deadline_at is not None:
            run.timeout_us, run.run_deadline_at = max(0, run.run_deadline_at - self.now), None
        run.wake_at = wake_at

    def report(self, command: SaveProgress | SaveCheckpoint | AppendEvents | SetWindow) -> bool:
        run = self.held(command.claim)
        if run is None:
            return False
        match command:
            case SaveProgress():
                run.documents["progress"] = command.progress
                self.emit(run, "run_progress", command.progress)
            case SaveCheckpoint():
                run.documents["checkpoint"] = command.checkpoint
                run.death_count = run.stop_count = 0
                self.emit(run, "run_checkpoint", {})
            case AppendEvents():
                for job_event in command.events:
                    self.emit(run, job_event.type, job_event.payload)
            case SetWindow():
                if command.window and run.status is not RUNNING:
                    return False
                run.window = int(command.window)
        return True

    def hand_over(self, command: HandOver) -> Ended | bool:
        """Count only an execution that stored nothing new and did not wait."""
        run = self.held(command.claim)
        if run is None or run.status is not RUNNING:
            return False
        if not command.has_progressed and (run.has_slot or not command.has_waited):
            run.stop_count += 1
            if run.stop_count >= 20:
                message = (
                    f"the process that executed it was stopped {run.stop_count} times"
                    " without progress in between"
                )
                error = run.documents["error"] = {"code": "poison", "message": message}
                self.move(run, RunStatus.FAILED, error=error)
                return _to_ended(run, error)
        self._release(run, self.now)
        payload = {"reason": "handed_over", "stop_count": run.stop_count}
        self.emit(run, "run_parked", payload)
        self.make_ready(run, "run_woken", {})
        return True

    def release(self, command: ReleaseOrphan) -> Ended | bool:
        run = self.run(command.run_id)
        instance = self.instances.get(command.instance_id)
        if run is None or run.instance_id != command.instance_id:
            return False
        if instance is not None and not instance.is_dead:
            return False
        if run.status is CANCELLING:
            run.generation += 1
            self.move(run, RunStatus.CANCELED)
            return True
        run.death_count += 1
        if run.command.recovery is Recovery.FAIL or run.death_count >= 3:
            poison = "the process that executed it was lost 3 times without progress in between"
            lost = (
                "the process that executed it was lost,"
                " and its job is set to fail instead of resuming"
            )
            is_lost = run.command.recovery is Recovery.FAIL
            error = {
                "code": "executor_lost" if is_lost else "poison",
                "message": lost if is_lost else poison,
            }
            run.documents["error"] = error
            self.move(run, RunStatus.FAILED, error=error)
            return _to_ended(run, error)
        run.token, run.instance_id = "", None
        run.has_slot = run.window = False
        self.make_ready(run, "run_taken_over", {"death_count": run.death_count})
        return True


def _to_ended(run: ModelRun, error: dict[str, str]) -> Ended:
    text = json.dumps(error, separators=(",", ":"))
    return Ended(run.command.run_id, run.command.key, run.command.job, text)


_COMMANDS: Final[dict[type[Any], Callable[[Oracle, Any], Any]]] = {
    Submit: Oracle.submit,
    ClaimRuns: Oracle.claim,
    **dict.fromkeys((Complete, Fail, ConfirmCancel), Oracle.settle),
    RequestCancel: Oracle.request_cancel,
    StopKey: Oracle.stop_key,
    StartChild: Oracle.start_child,
    CancelChild: Oracle.cancel_child,
    ConfirmChildrenEnded: Oracle.forget_children,
    ClearRuns: Oracle.clear,
    ForceCancel: Oracle.force_cancel,
    Expire: Oracle.expire,
    Wake: Oracle.wake,
    **dict.fromkeys((ReleaseSlot, RequestSlot, Park, Retry), Oracle.wait),
    **dict.fromkeys((SaveProgress, SaveCheckpoint, AppendEvents, SetWindow), Oracle.report),
    PostToInbox: Oracle.post_to_inbox,
    ConsumeInbox: Oracle.consume,
    **dict.fromkeys((RegisterInstance, RenewInstance, DeclareDead, RetireInstance), Oracle.lease),
    ReleaseOrphan: Oracle.release,
    HandOver: Oracle.hand_over,
    SetLane: Oracle.set_lane,
    ProposeLimit: Oracle.propose_limit,
    ConfigureLanes: Oracle.configure_lanes,
    SaveKey: Oracle.save_key,
    DeleteKey: Oracle.delete_key,
    **dict.fromkeys((PruneRuns, PruneEvents, PruneIdempotencyKeys), Oracle.prune),
    FireSchedule: Oracle.fire,
}
