"""Submit runs: the only module of the services that builds the command `Submit`.

Every new run of a process is submitted here. The request comes from a caller of the library or of
the HTTP API, a job that starts a child, a flow, or a person who starts a schedule's run early. Each
method validates the request, fills in the missing values, applies the command, and raises the error
that describes a refusal. The one exception is the run of a schedule that fires: a single command
decides the fire time and submits the run (`core/command/admin/schedules.py`). Both modules fill in
the defaults of the job with `make_submit`.
"""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from headway.core.command.flow.publish import FlowStart, StartFlow, StartFlowChild
from headway.core.command.run.child import (
    ACTIVE_CHILD_COUNT_MAX,
    ChildFound,
    ChildMismatch,
    ParentNotRunning,
    StartChild,
    StartChildResult,
    TooManyChildren,
    make_child_id,
)
from headway.core.command.run.idempotency import IdempotencyMismatch, Repeated, make_fingerprint
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
    make_submit,
)
from headway.core.document import Document, check_name, encode_document, parse_enum
from headway.core.duration import UNSET, TimeLimit
from headway.core.errors import (
    ChildRefused,
    IdempotencyConflict,
    InvalidInput,
    KeyBusy,
    LaneFull,
    OutputExists,
    RevisionConflict,
    RunNotActive,
)
from headway.core.flow.engine.records import FLOW_JOB
from headway.core.ids import Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import Claim, OnExistingOutput, RunMode, RunRecord
from headway.core.schedule import Schedule
from headway.core.secret import has_redacted
from headway.ports.id_source import IdSource
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.retrying import retry_until_available
from headway.services.submit.job import Job, JobFunction, check_params, encode_params, find_job
from headway.services.submit.lane_control import JobLanes
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.saved_keys import read_saved_params
from headway.trace import current_trace


class Submitter:
    """Submits runs, tasks and children for the callers in one process."""

    def __init__(
        self,
        store: Store,
        runs: RunReader,
        ids: IdSource,
        jobs: Mapping[str, Job],
        open_handle: Callable[[RunId], RunHandle],
    ) -> None:
        self.jobs = jobs
        self.job_lanes = JobLanes(store)
        self._store = store
        self._runs = runs
        self._ids = ids
        self._open_handle = open_handle

    async def submit_run(
        self,
        job: str | JobFunction,
        *,
        key: str | None,
        params: dict[str, Any] | None,
        mode: RunMode | str,
        lane: str | None,
        timeout_s: TimeLimit,
        queue_timeout_s: float | None,
        on_conflict: OnConflict | str,
        on_existing_output: OnExistingOutput | str | None,
        idempotency_key: str | None,
        by: str,
    ) -> RunHandle:
        """Submit a run of a job, and return its handle.

        Missing arguments come from the saved row of the key, or from the job.
        """
        registered = find_job(self.jobs, job)
        await self.job_lanes.propose_limits([registered])
        document, row_revision = await self._encode_params(registered, key, params)
        fingerprint = ""
        if idempotency_key is not None:
            given = None if params is None else encode_document(params, field="params")
            request = (registered.name, key, mode, lane, on_conflict, on_existing_output)
            limits = (_limit_for_fingerprint(timeout_s), queue_timeout_s)
            fingerprint = make_fingerprint("run", given, *request, *limits)
        submission = make_submit(
            registered,
            registered.name,
            self._ids.run_id(),
            key=key,
            params=document,
            row_revision=row_revision,
            lane=lane,
            timeout_s=timeout_s,
            queue_timeout_s=queue_timeout_s,
            on_conflict=parse_enum(OnConflict, on_conflict, field="on_conflict"),
            mode=parse_enum(RunMode, mode, field="mode"),
            on_existing_output=_parse_existing_output(on_existing_output, mode),
            idempotency_key=idempotency_key,
            fingerprint=fingerprint,
            by=by,
            traceparent=current_trace(),
        )
        return await self._apply(submission)

    async def submit_schedule(
        self, schedule: Schedule, *, idempotency_key: str | None, by: str
    ) -> RunHandle:
        """Submit a run of a schedule now. The next fire time of the schedule does not change."""
        submission = make_submit(
            schedule,
            schedule.job,
            self._ids.run_id(),
            key=schedule.key,
            params=schedule.params,
            on_existing_output=OnExistingOutput.ASK,
            idempotency_key=idempotency_key,
            fingerprint=make_fingerprint("schedule", schedule.name),
            by=by,
            traceparent=current_trace(),
        )
        return await self._apply(submission)

    async def submit_task(
        self,
        start: FlowStart,
        params: dict[str, Any] | None,
        *,
        request: tuple[object, ...],
        key: str | None,
        lane: str | None,
        timeout_s: float | None = None,
        queue_timeout_s: float | None = None,
        on_conflict: OnConflict = OnConflict.REJECT,
        idempotency_key: str | None,
        by: str,
    ) -> RunHandle:
        """Submit a task of a flow, and return its handle.

        `request` contains the caller's arguments that the idempotency fingerprint covers.
        """
        document = encode_document(check_params(params), field="params")
        submission = make_submit(
            self.jobs[FLOW_JOB],
            FLOW_JOB,
            self._ids.run_id(),
            key=key,
            params=document,
            lane=lane,
            timeout_s=timeout_s,
            queue_timeout_s=queue_timeout_s,
            on_conflict=on_conflict,
            idempotency_key=idempotency_key,
            fingerprint="" if idempotency_key is None else make_fingerprint(*request, document),
            by=by,
            traceparent=current_trace(),
        )
        answer = await self._store.apply(StartFlow(submission=submission, start=start))
        return self._open_handle(_run_id_or_raise(submission, answer))

    async def submit_child_run(
        self,
        parent: Claim,
        job: Job,
        params: Document,
        *,
        attempt: int,
        step: str,
        key: str | None,
        on_conflict: OnConflict,
    ) -> Accepted | ChildFound:
        """Submit the child run that a parent starts at `step`, or find it if it exists.

        Raise RunNotActive if the parent must end. Raise ChildRefused if the parent cannot have this
        child.
        """
        await retry_until_available(lambda: self.job_lanes.propose_limits([job]))
        child = self._build_child(
            parent, job, params, attempt=attempt, step=step, key=key, on_conflict=on_conflict
        )
        answer = await retry_until_available(lambda: self._store.apply(child))
        return _child_or_raise(child, answer)

    async def submit_child_task(
        self, parent: Claim, start: FlowStart, params: Mapping[str, Any], *, attempt: int, step: str
    ) -> Accepted | ChildFound:
        """Submit the child task that a task starts at `step`, or find it if it exists.

        Raise the same errors as `submit_child_run`.
        """
        document = encode_document(dict(params), field="params")
        child = self._build_child(
            parent, self.jobs[FLOW_JOB], document, attempt=attempt, step=step, key=None
        )
        command = StartFlowChild(child=child, start=start)
        answer = await retry_until_available(lambda: self._store.apply(command))
        return _child_or_raise(child, answer)

    async def _encode_params(
        self, job: Job, key: str | None, params: dict[str, Any] | None
    ) -> tuple[Document, int | None]:
        """Return the encoded parameters, and the revision of the saved row if it was used."""
        needs_saved = params is None or has_redacted(check_params(params))
        if key is None or not needs_saved:
            return encode_params(job, params), None
        saved_key = Key(check_name(key, field="key"))
        saved, revision = await read_saved_params(self._runs, saved_key, job=job.name)
        if params is None:
            return encode_params(job, saved), revision
        return encode_params(job, params, stored=saved or {}), revision

    def _build_child(
        self, parent: Claim, job: Job, params: Document, *, attempt: int, step: str, **options: Any
    ) -> StartChild:
        run_id = make_child_id(parent.run_id, step, attempt)
        submission = make_submit(
            job,
            job.name,
            run_id,
            params=params,
            parent_id=parent.run_id,
            traceparent=current_trace(),
            **options,
        )
        return StartChild(
            claim=parent,
            attempt=attempt,
            step=step,
            submission=submission,
            active_count_max=ACTIVE_CHILD_COUNT_MAX,
        )

    async def _apply(self, submission: Submit) -> RunHandle:
        """Apply a submission, and return a handle to its run.

        This is the new run, or the existing run that the submission joined, steered or repeated.
        The handle has the accepted record if the submission created a run that does not continue
        another run.
        """
        answer = await self._store.apply(submission)
        handle = self._open_handle(_run_id_or_raise(submission, answer))
        # A run that continues takes its documents from another run.
        if isinstance(answer, Accepted) and answer.run and submission.mode is RunMode.START:
            handle.accepted_record = RunRecord(answer.run, submission.params)
        return handle


def _run_id_or_raise(submission: Submit, answer: SubmitResult) -> RunId:
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


def _child_or_raise(child: StartChild, answer: StartChildResult) -> Accepted | ChildFound:
    """Return the child in `answer`, or raise the error that describes the refusal."""
    parent_id = child.claim.run_id
    match answer:
        case Accepted() | ChildFound():
            return answer
        case ParentNotRunning():
            raise RunNotActive(parent_id)
        case ChildMismatch(run_id, job):
            problem = f"its name is used by run {run_id} of job {job!r}; choose another name"
            raise ChildRefused(parent_id, problem)
        case TooManyChildren(active_count_max):
            problem = f"it has {active_count_max:,} active children; wait for some of them first"
            raise ChildRefused(parent_id, problem)
        case _:
            _run_id_or_raise(child.submission, answer)
            raise AssertionError(answer)  # No policy of a child permits another answer.


def _limit_for_fingerprint(limit: TimeLimit) -> float | str | None:
    """Return a time limit for use in a fingerprint, or None if the caller did not set it."""
    if limit is UNSET:
        return None
    return "none" if limit is None else limit


def _parse_existing_output(
    on_existing_output: OnExistingOutput | str | None, mode: RunMode | str
) -> OnExistingOutput:
    if on_existing_output is None:
        return OnExistingOutput.ASK
    if mode == RunMode.CONTINUE:
        problem = "cannot be set in the mode 'continue', which keeps the existing output"
        raise InvalidInput("on_existing_output", problem)
    return parse_enum(OnExistingOutput, on_existing_output, field="on_existing_output")
