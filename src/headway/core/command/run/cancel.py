"""Cancel is a durable intent: recorded first, then delivered, and forced when its time is up."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded, trim_names
from headway.core.command.run.notify_parent import notify_parent
from headway.core.document import Document, encode_document
from headway.core.duration import check_seconds
from headway.core.ids import Key, RunId, add_seconds
from headway.core.run.events import EventType
from headway.core.run.run import NO_TOKEN, Claim, FilesOnCancel, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger
from headway.core.run.window import Window

GRACE_S: Final = 30.0
INTENT_BYTE_COUNT_MAX: Final = 4096


class CancelResult(StrEnum):
    CANCELED = "canceled"
    """It is over: it never ran, or nobody held it."""
    REQUESTED = "requested"
    """Its executor has until `cancel_deadline_at` to unwind."""
    ALREADY_REQUESTED = "already_requested"
    TOO_LATE = "too_late"
    """It is over, or its loop is, and it comes to its end by itself."""
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancel:
    run_id: RunId
    files: FilesOnCancel = FilesOnCancel.KEEP
    reason: str = ""
    by: str = ""
    grace_s: float = GRACE_S

    def __post_init__(self) -> None:
        check_seconds(self.grace_s, field="grace_s")
        self.encode_intent()  # Refused here, where the caller is, and not in the middle of a batch.

    def encode_intent(self) -> Document:
        intent = {"files": self.files.value, "reason": self.reason, "by": self.by}
        return encode_document(intent, field="cancel", byte_count_max=INTENT_BYTE_COUNT_MAX)

    def need(self, needs: RowsNeeded) -> None:
        needs.add_ending_run(self.run_id)

    def decide(self, world: BatchState) -> CancelResult:
        answer = request_cancel(world, self)
        if answer is CancelResult.CANCELED:
            notify_parent(world, self.run_id)
        return answer


def request_cancel(world: BatchState, wanted: RequestCancel) -> CancelResult:
    """Without a word to the parent, for whoever is the parent."""
    run = world.run(wanted.run_id)
    if run is None:
        return CancelResult.NOT_FOUND
    if run.status is RunStatus.CANCELLING:
        return CancelResult.ALREADY_REQUESTED
    if not run.is_active or run.window == Window.CLOSED:
        return CancelResult.TOO_LATE
    return cancel_run(world, run, wanted)


def cancel_run(world: BatchState, run: Run, wanted: RequestCancel) -> CancelResult:
    """Cancel an active run that is not cancelling yet."""
    intent = wanted.encode_intent()
    documents = {"cancel": intent}
    if run.status is RunStatus.QUEUED:
        moved = world.move(run, Trigger.CANCEL, details=f',"cancel":{intent}', documents=documents)
        assert moved is not None
        return CancelResult.CANCELED
    moved = world.move(
        run,
        Trigger.CANCEL,
        details=f',"cancel":{intent}',
        documents=documents,
        cancel_deadline_at=add_seconds(world.now, seconds=wanted.grace_s),
        queue_rank=None,
        ready_seq=None,
        window=0,
        delete_files_on_cancel=1 if wanted.files is FilesOnCancel.DELETE else None,
    )
    assert moved is not None
    if moved.token == NO_TOKEN:  # Parked or orphaned: nobody has to be asked.
        world.move(moved, Trigger.FORCE_CANCEL, generation=moved.generation + 1)
        return CancelResult.CANCELED
    return CancelResult.REQUESTED


class StoppedRun(NamedTuple):
    run_id: RunId
    result: CancelResult


@dataclass(frozen=True, slots=True, kw_only=True)
class StopKey:
    """Cancel every run of a key: first those that wait behind its head, then the head.

    It is one decision, so that the end of one run cannot start the next. A flow task that waits for
    one of them as its child notices the end by its own poll.
    """

    key: Key
    files: FilesOnCancel = FilesOnCancel.KEEP
    reason: str = ""
    by: str = ""
    grace_s: float = GRACE_S

    def __post_init__(self) -> None:
        trim_names(self, "key")
        # Refuse invalid arguments here, so that the caller gets the error.
        self._make_request(RunId(""))

    def need(self, needs: RowsNeeded) -> None:
        needs.head_keys[self.key] = None
        needs.whole_keys[self.key] = None

    def decide(self, world: BatchState) -> tuple[StoppedRun, ...]:
        """Return the outcome for each active run, the head last. Empty if there is none."""
        return tuple(
            StoppedRun(run.id, self._make_request(run.id).decide(world))
            for run in reversed(list(world.active_runs(self.key)))
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
class ConfirmCancelDelivery:
    """The executor knows that the run is to end, and has told the job."""

    claim: Claim

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)

    def decide(self, world: BatchState) -> bool:
        run = world.held_run(self.claim)
        if run is None or run.status is not RunStatus.CANCELLING:
            return False
        world.emit(run, EventType.CANCEL_DELIVERED, "{}")
        return True


@dataclass(frozen=True, slots=True)
class ForceCancel:
    """End a run whose executor did not unwind in time; its claim is void from here on."""

    run_id: RunId

    def need(self, needs: RowsNeeded) -> None:
        needs.add_ending_run(self.run_id)

    def decide(self, world: BatchState) -> bool:
        run = world.run(self.run_id)
        if run is None or run.cancel_deadline_at is None or run.cancel_deadline_at > world.now:
            return False
        moved = world.move(
            run, Trigger.FORCE_CANCEL, details=',"forced":true', generation=run.generation + 1
        )
        notify_parent(world, self.run_id)
        return moved is not None
