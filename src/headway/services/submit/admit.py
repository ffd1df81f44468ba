"""Apply a submission, and raise the matching error if it is refused."""

from typing import assert_never

from headway.core.command.run.idempotency import IdempotencyMismatch, Repeated
from headway.core.command.run.submit import (
    Accepted,
    Busy,
    ExistingOutput,
    Joined,
    KeyRowChanged,
    LaneQueueFull,
    Steered,
    Submit,
    SubmitResult,
)
from headway.core.errors import (
    IdempotencyConflict,
    KeyBusy,
    LaneFull,
    OutputExists,
    RevisionConflict,
)
from headway.core.ids import RunId
from headway.core.run.run import RunMode, RunRecord
from headway.ports.event_reader import EventReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.run_watcher import RunWatcher


async def admit(store: Store, submission: Submit) -> RunId:
    """Submit, and return the id of the new run or of the one it joined, steered or repeated."""
    return run_id_or_raise(submission, await store.apply(submission))


async def submit_run(
    store: Store, submission: Submit, *, runs: RunReader, events: EventReader, watcher: RunWatcher
) -> RunHandle:
    """Submit as `admit` does, but return a handle.

    The handle has the accepted record if the submission created a run that does not continue
    another one.
    """
    answer = await store.apply(submission)
    run_id = run_id_or_raise(submission, answer)
    accepted = None
    # A run that continues takes its documents from another run.
    if isinstance(answer, Accepted) and answer.run and submission.mode is RunMode.START:
        accepted = RunRecord(answer.run, submission.params)
    return RunHandle(
        run_id, store=store, runs=runs, events=events, watcher=watcher, accepted_record=accepted
    )


def run_id_or_raise(submission: Submit, answer: SubmitResult) -> RunId:
    """Return the id of the run in `answer`, or raise the error that describes the refusal."""
    match answer:
        case Accepted(run_id=run_id) | Repeated(run_id) | Joined(run_id) | Steered(run_id=run_id):
            return run_id
        case Busy(active_run_id):
            raise KeyBusy(submission.key, active_run_id)
        case ExistingOutput(file_count, example):
            raise OutputExists(submission.key, file_count, example)
        case LaneQueueFull(lane, queued_count_max):
            raise LaneFull(lane, queued_count_max)
        case KeyRowChanged(revision):
            raise RevisionConflict(f"key {submission.key!r}", revision)
        case IdempotencyMismatch(run_id):
            assert submission.idempotency_key is not None
            raise IdempotencyConflict(submission.idempotency_key, run_id)
        case _:
            assert_never(answer)
