"""A cancel is a durable request: it is recorded, delivered, and forced after a grace period."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, cast

from headway.core.batch_state import BatchState
from headway.core.command.protocol import HolderCommand, RowsNeeded
from headway.core.command.run.end_run import notify_parent
from headway.core.document import encode_document, trim_names
from headway.core.duration import check_seconds
from headway.core.event_payloads import CancelDelivered, CancelIntent
from headway.core.ids import Key, RunId, add_seconds
from headway.core.json_encoder import Json
from headway.core.run.run import NO_TOKEN, FilesOnCancel, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger
from headway.core.run.window import Window

GRACE_S: Final = 30.0
INTENT_BYTE_COUNT_MAX: Final = 4096


class CancelResult(StrEnum):
    CANCELED = "canceled"
    """The run has ended: it never started, or no process held it."""
    REQUESTED = "requested"
    """The job has until `cancel_deadline_at` to unwind."""
    ALREADY_REQUESTED = "already_requested"
    TOO_LATE = "too_late"
    """The run has ended, or is about to end by itself because its message loop has ended."""
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancel:
    """Ask a run to end. A run that no process holds ends at once."""

    run_id: RunId
    files: FilesOnCancel = FilesOnCancel.KEEP
    reason: str = ""
    by: str = ""
    grace_s: float = GRACE_S

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_seconds(self.grace_s, field="grace_s")
        # Refuse an invalid intent here, so that only the caller fails, not the whole batch.
        self.encode_intent()

    def encode_intent(self) -> Json[CancelIntent]:
        intent = {"files": self.files.value, "reason": self.reason, "by": self.by}
        document = encode_document(intent, field="cancel", byte_count_max=INTENT_BYTE_COUNT_MAX)
        return cast("Json[CancelIntent]", document)

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_ending_run(self.run_id)

    def decide(self, batch: BatchState) -> CancelResult:
        answer = request_cancel(batch, self)
        if answer is CancelResult.CANCELED:
            notify_parent(batch, self.run_id)
        return answer


def request_cancel(batch: BatchState, request: RequestCancel) -> CancelResult:
    """Cancel a run without notifying its parent. For a parent that cancels its own child."""
    run = batch.run(request.run_id)
    if run is None:
        return CancelResult.NOT_FOUND
    if run.status is RunStatus.CANCELLING:
        return CancelResult.ALREADY_REQUESTED
    if not run.is_active or run.window == Window.CLOSED:
        return CancelResult.TOO_LATE
    return cancel_run(batch, run, request)


def cancel_run(batch: BatchState, run: Run, request: RequestCancel) -> CancelResult:
    """Cancel an active run that is not cancelling yet."""
    intent = request.encode_intent()
    documents = {"cancel": intent}
    if run.status is RunStatus.QUEUED:
        moved = batch.move(run, Trigger.CANCEL, details={"cancel": intent}, documents=documents)
        assert moved is not None
        return CancelResult.CANCELED
    moved = batch.move(
        run,
        Trigger.CANCEL,
        details={"cancel": intent},
        documents=documents,
        cancel_deadline_at=add_seconds(batch.now, seconds=request.grace_s),
        queue_rank=None,
        ready_seq=None,
        window=0,
        delete_files_on_cancel=1 if request.files is FilesOnCancel.DELETE else None,
    )
    assert moved is not None
    if moved.token == NO_TOKEN:  # Parked or orphaned: no process has to unwind it.
        batch.move(moved, Trigger.FORCE_CANCEL, generation=moved.generation + 1)
        return CancelResult.CANCELED
    return CancelResult.REQUESTED


class StoppedRun(NamedTuple):
    run_id: RunId
    result: CancelResult


@dataclass(frozen=True, slots=True, kw_only=True)
class StopKey:
    """Cancel every active run of a key: first the runs behind its head, then the head.

    All runs are canceled in one decision, so that the end of one run cannot start the next. A flow
    task that waits for one of these runs as its child detects the end by polling.
    """

    key: Key
    files: FilesOnCancel = FilesOnCancel.KEEP
    reason: str = ""
    by: str = ""
    grace_s: float = GRACE_S

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        trim_names(self, "key")
        # Refuse invalid arguments here, so that the caller gets the error.
        self._make_request(RunId(""))

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.head_keys[self.key] = None
        rows.whole_keys[self.key] = None

    def decide(self, batch: BatchState) -> tuple[StoppedRun, ...]:
        """Return the outcome for each active run, with the head last.

        Return an empty tuple if no run is active.
        """
        return tuple(
            StoppedRun(run.id, self._make_request(run.id).decide(batch))
            for run in reversed(list(batch.active_runs(self.key)))
        )

    def _make_request(self, run_id: RunId) -> RequestCancel:
        return RequestCancel(
            run_id=run_id,
            files=self.files,
            reason=self.reason,
            by=self.by,
            grace_s=self.grace_s,
        )


@dataclass(frozen=True, slots=True)
class ConfirmCancelDelivery(HolderCommand[bool]):
    """Record that the executor has received the cancel and has passed it to the job."""

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        if run.status is not RunStatus.CANCELLING:
            return False
        batch.emit(run, CancelDelivered())
        return True


@dataclass(frozen=True, slots=True)
class ForceCancel:
    """End a run whose executor did not unwind in time. The executor's claim is then stale."""

    run_id: RunId

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_ending_run(self.run_id)

    def decide(self, batch: BatchState) -> bool:
        """Return False if the run is not cancelling, or its grace period is not over."""
        run = batch.run(self.run_id)
        if run is None or run.cancel_deadline_at is None or run.cancel_deadline_at > batch.now:
            return False
        moved = batch.move(
            run, Trigger.FORCE_CANCEL, details={"forced": True}, generation=run.generation + 1
        )
        notify_parent(batch, self.run_id)
        return moved is not None
