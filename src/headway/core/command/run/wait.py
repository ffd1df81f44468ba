"""Waiting: a run releases its slot, stays the head of its key, and resumes before new runs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from headway.core.batch_state import BatchState
from headway.core.command.protocol import HolderCommand, RowsNeeded
from headway.core.command.run.interrupt import withdraw_interrupts
from headway.core.document import Document
from headway.core.duration import check_seconds
from headway.core.event_payloads import Parked, Retried, RunWoken, Waiting
from headway.core.ids import Instant, RunId, add_seconds
from headway.core.run.run import NO_TOKEN, QueueRank, Run
from headway.core.run.status import RunStatus


@dataclass(frozen=True, slots=True)
class ReleaseSlot(HolderCommand[bool]):
    """Give the slot back while the job waits. The executor keeps its claim and its asyncio task.

    The run does not queue for another slot until `RequestSlot`.
    """

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        """Return True if the run has no slot now. Repeating the command changes nothing."""
        if run.status is not RunStatus.RUNNING:
            return False
        if run.slot is not None or run.queue_rank is not None:
            run = batch.update(run, slot=None, queue_rank=None, ready_seq=None)
            batch.emit(run, Waiting())
        return True


class SlotResult(StrEnum):
    HELD = "held"
    """The run has a slot already."""
    QUEUED = "in_line"
    REFUSED = "refused"
    """The run is cancelling, or the claim is stale."""


@dataclass(frozen=True, slots=True)
class RequestSlot(HolderCommand[SlotResult]):
    """Queue for a slot again after a wait, ahead of runs that never started."""

    may_free_capacity: ClassVar[bool] = True
    stale_answer: ClassVar[SlotResult] = SlotResult.REFUSED

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id, may_wake=True)

    def decide_held(self, batch: BatchState, run: Run) -> SlotResult:
        if run.status is not RunStatus.RUNNING:
            return SlotResult.REFUSED
        if run.slot is not None:
            return SlotResult.HELD
        if run.queue_rank is None:
            _make_ready(batch, run)
        return SlotResult.QUEUED


@dataclass(frozen=True, slots=True)
class Park(HolderCommand[bool]):
    """Give up the claim until the run is woken.

    A parked run has no claim, holds no slot, and uses no memory.
    """

    wake_at: Instant | None = None

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id, may_wake=True)

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        if run.status is not RunStatus.RUNNING:
            return False
        run = park(batch, run, self.wake_at, attempt=run.attempt)
        run = batch.emit(run, Parked())
        # Otherwise an item that was posted before the run parked would never wake it.
        if run.unread_count or (self.wake_at is not None and self.wake_at <= batch.now):
            wake(batch, run)
        return True


@dataclass(frozen=True, slots=True)
class Retry(HolderCommand[bool]):
    """Record that this attempt has failed, and park the run until the next attempt.

    The run's unanswered questions are withdrawn, because the next attempt may never ask them.
    """

    error: Document
    delay_s: float
    traceback: str | None = None
    """The traceback for readers of the run. Events do not contain it."""

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_seconds(self.delay_s, field="delay_s")

    def document_length(self) -> int:
        return len(self.error) + len(self.traceback or "")

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id, may_wake=True)
        rows.interrupt_run_ids[self.claim.run_id] = None

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        if run.status is not RunStatus.RUNNING:
            return False
        wake_at = add_seconds(batch.now, seconds=self.delay_s)
        failed_attempt = run.attempt
        run = withdraw_interrupts(batch, run)
        run = park(batch, run, wake_at, attempt=failed_attempt + 1, documents=self._documents())
        run = batch.emit(run, Retried(failed_attempt, self.error, self.delay_s))
        if wake_at <= batch.now:
            wake(batch, run)
        return True

    def _documents(self) -> dict[str, str] | None:
        return None if self.traceback is None else {"traceback": self.traceback}


def park(
    batch: BatchState,
    run: Run,
    wake_at: Instant | None,
    *,
    attempt: int,
    death_count: int = 0,
    stop_count: int = 0,
    documents: dict[str, str] | None = None,
) -> Run:
    """Take the run from its executor, and return the parked run. The caller emits the event."""
    # Time spent parked does not count towards the limit: store the time left for the next claim.
    left_us = None if run.run_deadline_at is None else max(0, run.run_deadline_at - batch.now)
    return batch.update(
        run,
        documents,
        slot=None,
        instance_id=None,
        token=NO_TOKEN,
        window=0,
        queue_rank=None,
        ready_seq=None,
        death_count=death_count,
        stop_count=stop_count,
        run_deadline_at=None,
        timeout_us=run.timeout_us if left_us is None else left_us,
        wake_at=wake_at,
        attempt=attempt,
    )


@dataclass(frozen=True, slots=True)
class Wake:
    """Make a parked run ready if its timer is due or it has no timer."""

    run_id: RunId

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.run_id, may_wake=True)

    def decide(self, batch: BatchState) -> bool:
        """Return whether a parked run was made ready. A timer that is not yet due stays set."""
        run = batch.run(self.run_id)
        if run is None or not run.is_parked:
            return False
        if run.wake_at is not None and run.wake_at > batch.now:
            return False
        wake(batch, run)
        return True


@dataclass(frozen=True, slots=True)
class WakeParked:
    """Make a parked run ready before its timer is due, because its wait is over."""

    run_id: RunId
    generation: int
    """The generation that parked the run. A later claim may wait for something else."""

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.run_id, may_wake=True)

    def decide(self, batch: BatchState) -> bool:
        """Return False if the run is no longer parked, or was parked again since."""
        run = batch.run(self.run_id)
        if run is None or not run.is_parked or run.generation != self.generation:
            return False
        wake(batch, run)
        return True


def wake(batch: BatchState, run: Run) -> None:
    """Make a parked run ready, even if its timer is not due."""
    _make_ready(batch, batch.update(run, wake_at=None))


def _make_ready(batch: BatchState, run: Run) -> None:
    run = batch.update(run, queue_rank=int(QueueRank.RESUMED), ready_seq=batch.seq + 1)
    batch.emit(run, RunWoken())
