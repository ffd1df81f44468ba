"""How an execution ends: the commands with which the holder of a claim ends its run."""

from dataclasses import dataclass
from typing import ClassVar, Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.end_run import notify_parent
from headway.core.document import NULL, Document
from headway.core.event_payloads import StateDetails
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger


@dataclass(frozen=True, slots=True)
class Settled:
    status: RunStatus


@dataclass(frozen=True, slots=True)
class TooLate:
    """The claim is stale, or the run's status does not allow the command. Nothing was changed."""

    status: RunStatus | None
    """The current status of the run, or None if there is no such run."""


_SETTLED: Final = {status: Settled(status) for status in RunStatus}


def _settle(
    batch: BatchState,
    claim: Claim,
    trigger: Trigger,
    documents: dict[str, str],
    details: StateDetails | None = None,
) -> Settled | TooLate:
    run = batch.held_run(claim)
    moved = run and batch.move(run, trigger, documents=documents, details=details)
    if moved is None:
        run = batch.run(claim.run_id)
        return TooLate(None if run is None else run.status)
    notify_parent(batch, moved.id)
    return _SETTLED[moved.status]


@dataclass(frozen=True, slots=True)
class Complete:
    """End a run with its job's result. A flow task instead ends with its last `AdvanceFlow`."""

    claim: Claim
    result: Document = NULL

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return len(self.result)

    def need(self, rows: RowsNeeded) -> None:
        # Parents are not needed: only flow tasks are notified, and their children are flow tasks.
        rows.add_run(self.claim.run_id, may_end=True)

    def decide(self, batch: BatchState) -> Settled | TooLate:
        return _settle(batch, self.claim, Trigger.COMPLETE, {"result": self.result})


@dataclass(frozen=True, slots=True)
class Fail:
    """End the run because its job failed."""

    claim: Claim
    error: Document
    """A JSON object with at least `code` and `message`."""
    traceback: str | None = None
    """The traceback for readers of the run. Events do not contain it."""

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return len(self.error) + len(self.traceback or "")

    def need(self, rows: RowsNeeded) -> None:
        rows.add_ending_run(self.claim.run_id)

    def decide(self, batch: BatchState) -> Settled | TooLate:
        documents: dict[str, str] = {"error": self.error}
        if self.traceback is not None:
            documents["traceback"] = self.traceback
        return _settle(batch, self.claim, Trigger.FAIL, documents, {"error": self.error})


@dataclass(frozen=True, slots=True)
class ConfirmCancel:
    """End a run that is cancelling, because its job has unwound."""

    claim: Claim

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_ending_run(self.claim.run_id)

    def decide(self, batch: BatchState) -> Settled | TooLate:
        return _settle(batch, self.claim, Trigger.CONFIRM_CANCEL, {})
