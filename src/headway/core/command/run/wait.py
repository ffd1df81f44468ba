"""Waiting: a run gives its slot back, keeps its key, and comes back ahead of new runs."""

from dataclasses import dataclass
from enum import StrEnum

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.interrupt import withdraw_interrupts
from headway.core.document import Document
from headway.core.duration import check_seconds
from headway.core.ids import Instant, RunId, add_seconds
from headway.core.run.events import EventType
from headway.core.run.run import NO_TOKEN, Claim, QueueRank, Run
from headway.core.run.status import RunStatus


@dataclass(frozen=True, slots=True)
class ReleaseSlot:
    """The executor keeps its claim and its task, and waits without a slot, nor in line for one."""

    claim: Claim

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)

    def decide(self, world: BatchState) -> bool:
        """Whether it has none now; to say so twice changes nothing."""
        run = world.held_run(self.claim)
        if run is None or run.status is not RunStatus.RUNNING:
            return False
        if run.slot is not None or run.queue_rank is not None:
            run = world.update(run, slot=None, queue_rank=None, ready_seq=None)
            world.emit(run, EventType.WAITING, "{}")
        return True


class SlotResult(StrEnum):
    HELD = "held"
    """It has one already."""
    QUEUED = "in_line"
    REFUSED = "refused"
    """It is to end, or no longer held by this claim."""


@dataclass(frozen=True, slots=True)
class RequestSlot:
    """Its wait is over: it stands in the queue of its lane again, ahead of what never started."""

    claim: Claim

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id, may_wake=True)

    def decide(self, world: BatchState) -> SlotResult:
        run = world.held_run(self.claim)
        if run is None or run.status is not RunStatus.RUNNING:
            return SlotResult.REFUSED
        if run.slot is not None:
            return SlotResult.HELD
        if run.queue_rank is None:
            _make_ready(world, run)
        return SlotResult.QUEUED


@dataclass(frozen=True, slots=True)
class Park:
    """Nobody holds it any more: no slot, no claim, no memory, until it is woken."""

    claim: Claim
    wake_at: Instant | None = None

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id, may_wake=True)

    def decide(self, world: BatchState) -> bool:
        run = world.held_run(self.claim)
        if run is None or run.status is not RunStatus.RUNNING:
            return False
        run = park(world, run, self.wake_at, attempt=run.attempt)
        run = world.emit(run, EventType.PARKED, "{}")
        # What came in before it parked would otherwise never wake it.
        if run.unread_count or (self.wake_at is not None and self.wake_at <= world.now):
            wake(world, run)
        return True


@dataclass(frozen=True, slots=True)
class Retry:
    """This attempt has failed. The run waits for the next one as if it were parked.

    Its unanswered questions are withdrawn, because the next attempt may never ask them.
    """

    claim: Claim
    error: Document
    delay_s: float
    traceback: str | None = None
    """The text for readers of the run. Events do not contain it."""

    def __post_init__(self) -> None:
        check_seconds(self.delay_s, field="delay_s")

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id, may_wake=True)
        needs.interrupt_run_ids[self.claim.run_id] = None

    def decide(self, world: BatchState) -> bool:
        run = world.held_run(self.claim)
        if run is None or run.status is not RunStatus.RUNNING:
            return False
        wake_at = add_seconds(world.now, seconds=self.delay_s)
        failed_attempt = run.attempt
        run = withdraw_interrupts(world, run)
        run = park(world, run, wake_at, attempt=failed_attempt + 1, documents=self._documents())
        payload = f'{{"attempt":{failed_attempt},"error":{self.error},"delay_s":{self.delay_s}}}'
        run = world.emit(run, EventType.RETRIED, payload)
        if wake_at <= world.now:
            wake(world, run)
        return True

    def _documents(self) -> dict[str, str] | None:
        return None if self.traceback is None else {"traceback": self.traceback}


def park(
    world: BatchState,
    run: Run,
    wake_at: Instant | None,
    *,
    attempt: int,
    death_count: int = 0,
    stop_count: int = 0,
    documents: dict[str, str] | None = None,
) -> Run:
    """Take the run from its executor. The caller writes the event."""
    # A parked run's time does not count: what is left is kept and granted at the next claim.
    left_us = None if run.run_deadline_at is None else max(0, run.run_deadline_at - world.now)
    return world.update(
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
    run_id: RunId

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.run_id, may_wake=True)

    def decide(self, world: BatchState) -> bool:
        """Whether it was parked and is ready now. A timer that is not due yet stays set."""
        run = world.run(self.run_id)
        if run is None or not run.is_parked:
            return False
        if run.wake_at is not None and run.wake_at > world.now:
            return False
        wake(world, run)
        return True


@dataclass(frozen=True, slots=True)
class WakeParked:
    """Make a parked run ready before its timer, because its wait is over."""

    run_id: RunId
    generation: int
    """The generation that parked it. The caller does not know what a later claim waits for."""

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.run_id, may_wake=True)

    def decide(self, world: BatchState) -> bool:
        """Return False if the run is no longer parked, or was parked again since."""
        run = world.run(self.run_id)
        if run is None or not run.is_parked or run.generation != self.generation:
            return False
        wake(world, run)
        return True


def wake(world: BatchState, run: Run) -> None:
    """Make a parked run ready, whatever its timer says."""
    _make_ready(world, world.update(run, wake_at=None))


def _make_ready(world: BatchState, run: Run) -> None:
    run = world.update(run, queue_rank=int(QueueRank.RESUMED), ready_seq=world.seq + 1)
    world.emit(run, EventType.WOKEN, "{}")
