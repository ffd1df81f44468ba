"""End a run for a reason outside its job (time limit, lost executor), and notify its parent."""

from dataclasses import dataclass
from typing import Any, ClassVar

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.inbox import post
from headway.core.document import Document
from headway.core.event_payloads import StateDetails, TimeoutClock
from headway.core.flow.engine.records import CHILD_ENDED, FLOW_JOB, encode_json
from headway.core.ids import SECOND_US, Instant, Key, RunId
from headway.core.run.deadlines import is_overdue
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a command that has ended a run with `error`."""

    run_id: RunId
    key: Key
    job: str
    error: str


def end_with_error(
    batch: BatchState,
    run: Run,
    trigger: Trigger,
    error: str,
    *,
    clock: TimeoutClock | None = None,
    **changes: Any,
) -> Ended | None:
    """End a run and notify its parent. Return None if the run's status forbids `trigger`.

    `error` is a JSON document. `clock` is the time limit that the run has exceeded, if any.
    """
    details: StateDetails = {"error": Document(error)}
    if clock is not None:
        details["clock"] = clock
    moved = batch.move(run, trigger, details=details, documents={"error": error}, **changes)
    notify_parent(batch, run.id)
    return None if moved is None else Ended(run.id, run.key, run.job, error)


def notify_parent(batch: BatchState, run_id: RunId) -> None:
    """If a flow task started the run, post to the task's inbox that the run has ended.

    How the run ended makes no difference. Do nothing if the run is still active. If the post is
    lost, the task detects the end by polling.
    """
    run = batch.run(run_id)
    if run is None or run.is_active or run.parent_id is None:
        return
    parent = batch.run(run.parent_id)
    if parent is not None and parent.job == FLOW_JOB and parent.status is RunStatus.RUNNING:
        post(batch, parent, kind=CHILD_ENDED, payload=Document(encode_json(run.id)), by="")


@dataclass(frozen=True, slots=True)
class Expire:
    """Time out a run whose queue time or execution time is over."""

    run_id: RunId

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_ending_run(self.run_id)

    def decide(self, batch: BatchState) -> Ended | bool:
        """Return Ended, or False if the run is not overdue. The claim of an ended run is stale."""
        run = batch.run(self.run_id)
        if run is None or not is_overdue(run, batch.now):
            return False
        is_queued = run.status is RunStatus.QUEUED
        clock: TimeoutClock = "queue" if is_queued else "execution"
        message = _describe_queue(run, batch.now) if is_queued else _describe_execution(run)
        error = f'{{"code":"{clock}_timeout","message":"{message}"}}'
        return end_with_error(batch, run, Trigger.EXPIRE, error, clock=clock) or False


def _describe_queue(run: Run, now: Instant) -> str:
    assert run.queue_deadline_at is not None
    waited_s = _format_seconds(now - run.queued_at)
    limit_s = _format_seconds(run.queue_deadline_at - run.queued_at)
    return f"waited {waited_s} s in the queue; its queue_timeout_s is {limit_s}"


def _describe_execution(run: Run) -> str:
    if run.generation > 1 or run.timeout_us is None:
        # Parking stored only the time that was left, so the whole limit is not known here.
        return "its executions together took longer than its timeout_s"
    return f"executed for longer than its timeout_s, which is {_format_seconds(run.timeout_us)}"


def _format_seconds(microseconds: int) -> str:
    return f"{microseconds / SECOND_US:.10g}"
