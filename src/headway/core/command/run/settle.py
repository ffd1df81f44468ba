"""How an execution ends, said by the one who holds its claim."""

from dataclasses import dataclass
from typing import Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.notify_parent import notify_parent
from headway.core.document import NULL, Document
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger


@dataclass(frozen=True, slots=True)
class Settled:
    status: RunStatus


@dataclass(frozen=True, slots=True)
class TooLate:
    """The claim is no longer in force, or the run has moved on; nothing was changed."""

    status: RunStatus | None
    """Where the run is now; None when there is no such run."""


_SETTLED: Final = {status: Settled(status) for status in RunStatus}


def _settle(
    world: BatchState, claim: Claim, trigger: Trigger, documents: dict[str, str], details: str
) -> Settled | TooLate:
    run = world.held_run(claim)
    moved = run and world.move(run, trigger, documents=documents, details=details)
    if moved is None:
        run = world.run(claim.run_id)
        return TooLate(None if run is None else run.status)
    notify_parent(world, moved.id)
    return _SETTLED[moved.status]


@dataclass(frozen=True, slots=True)
class Complete:
    """Of a job: a flow task says so with its last step."""

    claim: Claim
    result: Document = NULL

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id, may_end=True)

    def decide(self, world: BatchState) -> Settled | TooLate:
        return _settle(world, self.claim, Trigger.COMPLETE, {"result": self.result}, "")


@dataclass(frozen=True, slots=True)
class Fail:
    claim: Claim
    error: Document
    """A JSON object with at least `code` and `message`."""
    traceback: str | None = None
    """The text for readers of the run. Events do not contain it."""

    def need(self, needs: RowsNeeded) -> None:
        needs.add_ending_run(self.claim.run_id)

    def decide(self, world: BatchState) -> Settled | TooLate:
        details = f',"error":{self.error}'
        documents: dict[str, str] = {"error": self.error}
        if self.traceback is not None:
            documents["traceback"] = self.traceback
        return _settle(world, self.claim, Trigger.FAIL, documents, details)


@dataclass(frozen=True, slots=True)
class ConfirmCancel:
    claim: Claim

    def need(self, needs: RowsNeeded) -> None:
        needs.add_ending_run(self.claim.run_id)

    def decide(self, world: BatchState) -> Settled | TooLate:
        return _settle(world, self.claim, Trigger.CONFIRM_CANCEL, {}, "")
