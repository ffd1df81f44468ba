"""Child runs: started by the job of another run, found again by it, and ended with it.

The id of a child is a function of its parent, the step and the attempt. When the parent is executed
again, it requests the same step and finds the same child, even if the first answer was lost.
"""

import hashlib
from dataclasses import dataclass
from typing import ClassVar, Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.cancel import GRACE_S, CancelResult, RequestCancel, cancel_run
from headway.core.command.run.submit import Accepted, Submit, SubmitResult
from headway.core.ids import SECOND_US, RunId
from headway.core.run.run import Claim, FilesOnCancel, Run
from headway.core.run.status import RunStatus

CHILD_DEPTH_MAX: Final = 16
"""How many levels of descendants a run without a parent may have."""
ACTIVE_CHILD_COUNT_MAX: Final = 1_000
PARENT_ENDED: Final = "parent_ended"
"""The recorded reason if a child is canceled because its parent ended or is cancelling."""


def make_child_id(parent_id: RunId, step: str, attempt: int) -> RunId:
    """Return the id of the child that the parent's `attempt` starts at `step`.

    The id has the same prefix as the parent's id, so that related runs are adjacent in the index.
    It has the form of a UUID if the parent's id has that form.
    """
    digest = hashlib.sha256(f"{parent_id}\0{attempt}\0{step}".encode()).hexdigest()
    return RunId(f"{parent_id[:14]}8{digest[:3]}-b{digest[3:6]}-{digest[6:18]}")


@dataclass(frozen=True, slots=True)
class ChildFound:
    """The child exists. This attempt of the parent or an earlier one has started it.

    A child of an earlier attempt counts only if it is active or has succeeded.
    """

    run_id: RunId


@dataclass(frozen=True, slots=True)
class ChildMismatch:
    """The child of this step exists, but has another job."""

    run_id: RunId
    job: str


@dataclass(frozen=True, slots=True)
class TooManyChildren:
    active_count_max: int


@dataclass(frozen=True, slots=True)
class ParentNotRunning:
    """The parent's claim is stale, or the parent is cancelling."""


StartChildResult = SubmitResult | ChildFound | ChildMismatch | TooManyChildren | ParentNotRunning


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChild:
    """Start a child of a run, or find it if it was started before."""

    claim: Claim
    """The claim of the parent."""
    attempt: int
    """The current attempt of the parent."""
    step: str
    submission: Submit
    """The submission of the child. Its `run_id` must be the result of `make_child_id`."""
    active_count_max: int = ACTIVE_CHILD_COUNT_MAX

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        assert self.submission.run_id == make_child_id(self.claim.run_id, self.step, self.attempt)
        assert self.submission.parent_id == self.claim.run_id

    def document_length(self) -> int:
        return self.submission.document_length()

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)
        rows.parent_ids[self.claim.run_id] = None
        for attempt in range(1, self.attempt + 1):
            rows.add_run(make_child_id(self.claim.run_id, self.step, attempt))
        self.submission.need(rows)

    def decide(self, batch: BatchState) -> StartChildResult:
        """Start or find the child. A refusal is not recorded: the parent's job handles it."""
        parent = batch.held_run(self.claim)
        if parent is None or parent.status is not RunStatus.RUNNING:
            return ParentNotRunning()
        # With the same key, parent and child would wait for each other forever.
        assert self.submission.key != parent.key
        child = self._find_earlier(batch)
        if child is not None:
            is_same = child.parent_id == parent.id and child.job == self.submission.job
            return ChildFound(child.id) if is_same else ChildMismatch(child.id, child.job)
        if batch.child_counts[parent.id] >= self.active_count_max:
            return TooManyChildren(self.active_count_max)
        answer = self.submission.decide(batch)
        if isinstance(answer, Accepted):
            batch.update(parent, is_parent=1)
        return answer

    def _find_earlier(self, batch: BatchState) -> Run | None:
        """Return the child that this attempt or an earlier one has started at this step, or None.

        If only earlier attempts have started one, return the newest of these children, but only if
        it is active or has succeeded.
        """
        for attempt in range(self.attempt, 0, -1):
            run = batch.run(make_child_id(self.claim.run_id, self.step, attempt))
            if run is not None:
                is_good = run.is_active or run.status is RunStatus.SUCCEEDED
                return run if is_good or attempt == self.attempt else None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelChild:
    """Cancel an active child of a run that has ended or is cancelling."""

    run_id: RunId
    parent_id: RunId
    files: FilesOnCancel = FilesOnCancel.KEEP
    by: str = ""

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.run_id, may_end=True)
        rows.add_run(self.parent_id)

    def decide(self, batch: BatchState) -> CancelResult:
        """Cancel the child, and return the result.

        Return TOO_LATE if the child has ended. Also return TOO_LATE if the parent has neither ended
        nor begun cancelling.
        """
        run, parent = batch.run(self.run_id), batch.run(self.parent_id)
        if run is None:
            return CancelResult.NOT_FOUND
        if run.child_of != self.parent_id or (
            parent is not None and parent.children_ending_since is None
        ):
            return CancelResult.TOO_LATE
        if run.status is RunStatus.CANCELLING:
            return CancelResult.ALREADY_REQUESTED
        grace_s = GRACE_S
        if parent is not None and parent.cancel_deadline_at is not None:
            # The child has as much time left as its parent.
            grace_s = max(0, parent.cancel_deadline_at - batch.now) / SECOND_US
        request = RequestCancel(
            run_id=run.id, files=self.files, reason=PARENT_ENDED, by=self.by, grace_s=grace_s
        )
        return cancel_run(batch, run, request)


@dataclass(frozen=True, slots=True)
class ConfirmChildrenEnded:
    """Record that all children of an ended or cancelling run have ended or are cancelling.

    Apply only after a query that found no child in any other status. The query must have started
    after the run ended or began cancelling: no more children can be started from then on.
    """

    run_id: RunId

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.run_id)

    def decide(self, batch: BatchState) -> bool:
        run = batch.run(self.run_id)
        if run is None or run.children_ending_since is None:
            return False
        batch.update(run, is_parent=0, children_ending_since=None)
        return True
