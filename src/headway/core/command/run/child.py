"""Child runs: started by the job of another run, found again by it, and ended with it.

A child has an id that follows from its parent and from what was asked for. Whoever executes the
parent again asks for the same and finds the same child, whatever was lost in between.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.cancel import GRACE_S, CancelResult, RequestCancel, cancel_run
from headway.core.command.run.submit import Accepted, Submit, SubmitResult
from headway.core.ids import SECOND_US, RunId
from headway.core.run.run import Claim, FilesOnCancel, Run
from headway.core.run.status import RunStatus

CHILD_DEPTH_MAX: Final = 16
"""How many generations may stand below a run that nobody's job has started."""
ACTIVE_CHILD_COUNT_MAX: Final = 1_000
PARENT_ENDED: Final = "parent_ended"
"""The reason for which children are cancelled."""


def make_child_id(parent_id: RunId, step: str, attempt: int) -> RunId:
    """The id of what the parent's `attempt` asks for at `step`.

    It begins like the parent's, so that a family stands together in the index, and has the form of
    a UUID if that one's has.
    """
    digest = hashlib.sha256(f"{parent_id}\0{attempt}\0{step}".encode()).hexdigest()
    return RunId(f"{parent_id[:14]}8{digest[:3]}-b{digest[3:6]}-{digest[6:18]}")


@dataclass(frozen=True, slots=True)
class ChildFound:
    """It was started before: by this attempt of the parent, or by an earlier one and is good."""

    run_id: RunId


@dataclass(frozen=True, slots=True)
class ChildMismatch:
    """The step stands for a child with another job."""

    run_id: RunId
    job: str


@dataclass(frozen=True, slots=True)
class TooManyChildren:
    active_count_max: int


@dataclass(frozen=True, slots=True)
class ParentNotRunning:
    """The parent's claim is void, or it was asked to end."""


StartChildResult = SubmitResult | ChildFound | ChildMismatch | TooManyChildren | ParentNotRunning


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChild:
    claim: Claim
    attempt: int
    """Of the parent, under this claim."""
    step: str
    submission: Submit
    """Its id is that of `step` and `attempt`."""
    active_count_max: int = ACTIVE_CHILD_COUNT_MAX

    def __post_init__(self) -> None:
        assert self.submission.run_id == make_child_id(self.claim.run_id, self.step, self.attempt)
        assert self.submission.parent_id == self.claim.run_id

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)
        needs.parent_ids[self.claim.run_id] = None
        for attempt in range(1, self.attempt + 1):
            needs.add_run(make_child_id(self.claim.run_id, self.step, attempt))
        self.submission.need(needs)

    def decide(self, world: BatchState) -> StartChildResult:
        """A refusal is the parent's to deal with, who is there: it is not recorded."""
        parent = world.held_run(self.claim)
        if parent is None or parent.status is not RunStatus.RUNNING:
            return ParentNotRunning()
        assert self.submission.key != parent.key  # Both would wait for ever.
        known = self._find_earlier(world)
        if known is not None:
            is_same = known.parent_id == parent.id and known.job == self.submission.job
            return ChildFound(known.id) if is_same else ChildMismatch(known.id, known.job)
        if world.child_counts[parent.id] >= self.active_count_max:
            return TooManyChildren(self.active_count_max)
        answer = self.submission.decide(world)
        if isinstance(answer, Accepted):
            world.update(parent, is_parent=1)
        return answer

    def _find_earlier(self, world: BatchState) -> Run | None:
        """What this attempt has started, or what an earlier one has and did not fail."""
        for attempt in range(self.attempt, 0, -1):
            run = world.run(make_child_id(self.claim.run_id, self.step, attempt))
            if run is not None:
                is_good = run.is_active or run.status is RunStatus.SUCCEEDED
                return run if is_good or attempt == self.attempt else None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelChild:
    """End an active child of a run that is over, or was asked to end."""

    run_id: RunId
    parent_id: RunId
    files: FilesOnCancel = FilesOnCancel.KEEP
    by: str = ""

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.run_id, may_end=True)
        needs.add_run(self.parent_id)

    def decide(self, world: BatchState) -> CancelResult:
        """TOO_LATE: it is over already, or its parent is not."""
        run, parent = world.run(self.run_id), world.run(self.parent_id)
        if run is None:
            return CancelResult.NOT_FOUND
        if run.child_of != self.parent_id or (
            parent is not None and parent.children_ending_since is None
        ):
            return CancelResult.TOO_LATE
        if run.status is RunStatus.CANCELLING:
            return CancelResult.ALREADY_REQUESTED
        grace_s = GRACE_S
        if (
            parent is not None and parent.cancel_deadline_at is not None
        ):  # As long as the parent has.
            grace_s = max(0, parent.cancel_deadline_at - world.now) / SECOND_US
        wanted = RequestCancel(
            run_id=run.id, files=self.files, reason=PARENT_ENDED, by=self.by, grace_s=grace_s
        )
        return cancel_run(world, run, wanted)


@dataclass(frozen=True, slots=True)
class ConfirmChildrenEnded:
    """All children of a run that is over, or was asked to end, are over or were asked to.

    Only to be said after a look that found no other, made when the run was seen to be so: no more
    can be started then.
    """

    run_id: RunId

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.run_id)

    def decide(self, world: BatchState) -> bool:
        run = world.run(self.run_id)
        if run is None or run.children_ending_since is None:
            return False
        world.update(run, is_parent=0, children_ending_since=None)
        return True
