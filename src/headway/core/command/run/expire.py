"""Time out a run whose queue or execution time is over."""

from dataclasses import dataclass

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.end_run import Ended, end_with_error
from headway.core.ids import SECOND_US, Instant, RunId
from headway.core.run.deadlines import is_overdue
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger


@dataclass(frozen=True, slots=True)
class Expire:
    run_id: RunId

    def need(self, needs: RowsNeeded) -> None:
        needs.add_ending_run(self.run_id)

    def decide(self, world: BatchState) -> Ended | bool:
        """Return False if the run is not overdue. Its claim is stale after it has ended."""
        run = world.run(self.run_id)
        if run is None or not is_overdue(run, world.now):
            return False
        is_queued = run.status is RunStatus.QUEUED
        clock = "queue" if is_queued else "execution"
        message = _describe_queue(run, world.now) if is_queued else _describe_execution(run)
        error = f'{{"code":"{clock}_timeout","message":"{message}"}}'
        details = f',"clock":"{clock}"'
        return end_with_error(world, run, Trigger.EXPIRE, error, details=details) or False


def _describe_queue(run: Run, now: Instant) -> str:
    assert run.queue_deadline_at is not None
    waited_s, limit_s = (
        _format_seconds(now - run.queued_at),
        _format_seconds(run.queue_deadline_at - run.queued_at),
    )
    return f"waited {waited_s} s in the queue; its queue_timeout_s is {limit_s}"


def _describe_execution(run: Run) -> str:
    if run.generation > 1 or run.timeout_us is None:
        # Parking stored only the rest of the limit, so the whole limit is not known here.
        return "its executions together took longer than its timeout_s"
    return f"executed for longer than its timeout_s, which is {_format_seconds(run.timeout_us)}"


def _format_seconds(microseconds: int) -> str:
    return f"{microseconds / SECOND_US:.10g}"
