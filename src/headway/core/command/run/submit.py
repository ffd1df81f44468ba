"""Submit: the only way to add a run. `make_submit` fills in the job's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from headway.core.batch_state import MESSAGE, BatchState, InboxItem
from headway.core.command.protocol import RUN_ID_LENGTH_MAX, RowsNeeded
from headway.core.command.run.cancel import RequestCancel, cancel_run
from headway.core.command.run.idempotency import (
    IdempotencyMismatch,
    Repeated,
    find_earlier,
    save_record,
)
from headway.core.command.run.inbox import UNREAD_COUNT_MAX, InboxFull, Posted, post, take_unread
from headway.core.document import EMPTY_OBJECT, Document, check_text, trim_names
from headway.core.duration import UNSET, TimeLimit, check_limit, resolve_limit
from headway.core.event_payloads import RejectReason, StateDetails
from headway.core.flow.engine.records import FLOW_JOB
from headway.core.ids import MAIN_LANE, SECOND_US, Instant, Key, LaneName, RunId, add_seconds
from headway.core.lane_row import default_lane
from headway.core.run.admission import Admission, OnConflict, decide_admission
from headway.core.run.run import NO_TOKEN, OnExistingOutput, QueueRank, Recovery, Run, RunMode
from headway.core.run.status import RunStatus


@dataclass(slots=True)
class Accepted:
    run_id: RunId
    seq: int
    run: Run | None = field(default=None, compare=False, repr=False)
    """The run as it is at the end of the batch. A claim in the same batch may have started it."""

    def finalize(self, batch: BatchState) -> None:
        self.run = batch.run(self.run_id)


@dataclass(frozen=True, slots=True)
class Busy:
    active_run_id: RunId


@dataclass(frozen=True, slots=True)
class Joined:
    run_id: RunId


@dataclass(frozen=True, slots=True)
class Steered:
    run_id: RunId
    inbox_seq: int


@dataclass(frozen=True, slots=True)
class LaneQueueFull:
    """The lane has its maximum number of queued runs."""

    lane: LaneName
    queued_count_max: int


@dataclass(frozen=True, slots=True)
class KeyRowChanged:
    """The key's saved row has changed since the parameters were taken from it."""

    revision: int
    """The current revision, or 0 if there is no row."""


@dataclass(frozen=True, slots=True)
class ExistingOutput:
    """The key has files of earlier runs, and the request does not specify what to do with them."""

    file_count: int
    example: str


SubmitResult = (
    Accepted
    | Repeated
    | Busy
    | Joined
    | Steered
    | LaneQueueFull
    | IdempotencyMismatch
    | KeyRowChanged
    | ExistingOutput
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Add a run to the queue of its lane, unless its key is busy or the lane is full."""

    run_id: RunId
    key: Key
    job: str
    params: Document = EMPTY_OBJECT
    row_revision: int | None = None
    """The revision of the key's saved row, if the job and `params` were taken from it."""
    mode: RunMode = RunMode.START
    lane: LaneName = MAIN_LANE
    on_conflict: OnConflict = OnConflict.REJECT
    idempotency_key: str | None = None
    queue_timeout_s: float | None = None
    timeout_s: float | None = None
    recovery: Recovery = Recovery.RESUME
    on_existing_output: OnExistingOutput = OnExistingOutput.REPLACE
    """Ignored for a run with mode `continue`, which keeps the existing output."""
    parent_id: RunId | None = None
    is_unattended: bool = False
    """True if no caller waits, as for a schedule. A refusal is then stored as a `rejected` run."""
    by: str = ""
    fingerprint: str = ""
    """The digest of a request with an idempotency key. A repeated request has the same digest.

    See `make_fingerprint`.
    """
    traceparent: str | None = None
    """The trace of the caller. Not part of the fingerprint: a repeated request has another."""

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        trim_names(self, "key", "lane", "job")
        if self.idempotency_key is not None:
            trim_names(self, "idempotency_key")
            assert self.fingerprint  # Without one, all requests would be equal.
        check_text(self.run_id, field="run_id", length_max=RUN_ID_LENGTH_MAX)
        check_text(self.by, field="by")
        check_limit(self.queue_timeout_s, field="queue_timeout_s")
        check_limit(self.timeout_s, field="timeout_s")

    def document_length(self) -> int:
        return len(self.params)

    def need(self, rows: RowsNeeded) -> None:
        rows.head_keys[self.key] = None
        rows.lanes[self.lane] = None
        if self.row_revision is not None:
            rows.saved_keys[self.key] = None
        if self.on_conflict is OnConflict.REPLACE:
            rows.whole_keys[self.key] = None
        if self.mode is RunMode.CONTINUE:
            rows.latest_keys[self.key] = None
        if self._checks_output:
            rows.output_keys[self.key] = None
        if self.idempotency_key is not None:
            rows.idempotency_keys[self.idempotency_key] = None

    @property
    def _checks_output(self) -> bool:
        # A run without a key has its id as the key, so there is no earlier output.
        is_new_key = str(self.key) == str(self.run_id)
        return (
            self.on_existing_output is OnExistingOutput.ASK
            and self.mode is RunMode.START
            and not is_new_key
        )

    def decide(self, batch: BatchState) -> SubmitResult:
        if self.idempotency_key is not None:
            earlier = find_earlier(batch, self.idempotency_key, self.fingerprint)
            if earlier is not None:
                return earlier
        if self.row_revision is not None:
            saved = batch.keys.get(self.key)
            revision = 0 if saved is None else saved.revision
            if revision != self.row_revision:
                return KeyRowChanged(revision)
        head = batch.head_run(self.key)
        admission = decide_admission(self.on_conflict, head)
        if admission is Admission.INJECT:
            assert head is not None
            posted = post(batch, head, kind=MESSAGE, payload=self.params, by=self.by)
            if isinstance(posted, Posted):
                self._save_idempotency(batch, head.id)
                return Steered(head.id, posted.seq)
            assert isinstance(posted, InboxFull)
            admission = Admission.QUEUE
        if admission is Admission.SHARE:
            assert head is not None
            self._save_idempotency(batch, head.id)
            return Joined(head.id)
        refusal = self._find_refusal(batch, admission, head)
        if refusal is not None:
            if self.is_unattended:
                self._record_rejected(batch, refusal)
            return refusal
        return self._replace(batch) if admission is Admission.SUPERSEDE else self._enter(batch)

    def _find_refusal(
        self, batch: BatchState, admission: Admission, head: Run | None
    ) -> Busy | ExistingOutput | LaneQueueFull | None:
        if admission is Admission.REFUSE:
            assert head is not None
            return Busy(head.id)
        if self._checks_output and self.key in batch.outputs:
            return ExistingOutput(*batch.outputs[self.key])
        queue = batch.lane_queues.get(self.lane)
        if queue is None or queue.lane.max_queued is None:
            return None
        queued_count = queue.queued_count
        if admission is Admission.SUPERSEDE:
            queued_count -= sum(
                run.status is RunStatus.QUEUED and run.lane == self.lane
                for run in batch.active_runs(self.key)
            )
        # A run that finds a free slot starts at once, so it does not count against `max_queued`.
        # A run that waits for its own key counts, even if the lane has a free slot.
        is_free = admission is Admission.ENTER or (
            admission is Admission.SUPERSEDE and head is not None and head.token == NO_TOKEN
        )
        free_count = max(0, queue.lane.capacity - queue.held_count) if is_free else 0
        if queued_count < queue.lane.max_queued + free_count:
            return None
        return LaneQueueFull(self.lane, queue.lane.max_queued)

    def _replace(self, batch: BatchState) -> Accepted:
        """Cancel the key's active runs, add this run, and give it their unread messages.

        This run waits behind runs that are still cancelling.
        """
        carried: list[InboxItem] = []
        if self.job != FLOW_JOB:  # A flow task reads no messages: the replaced runs report them.
            for run in batch.active_runs(self.key):
                count_max = UNREAD_COUNT_MAX - len(carried)
                carried += take_unread(batch, run, to_run_id=self.run_id, count_max=count_max)
        self._cancel_others(batch)
        accepted = self._enter(batch)
        for item in carried:
            post(
                batch,
                batch.runs[self.run_id],
                kind=MESSAGE,
                payload=item.payload,
                by=item.by,
                carried_from=item.run_id,
            )
        return accepted

    def _cancel_others(self, batch: BatchState) -> None:
        # In reverse order, so that no waiting run becomes the head before it is canceled.
        for run in reversed(list(batch.active_runs(self.key))):
            if run.status is not RunStatus.CANCELLING:
                request = RequestCancel(run_id=run.id, reason="replaced", by=self.by)
                cancel_run(batch, run, request)

    def _enter(self, batch: BatchState) -> Accepted:
        if self.lane not in batch.lane_rows:
            # Stored on first use, so that the lane can be listed, limited and locked.
            batch.lane_rows[self.lane] = default_lane(self.lane)
            batch.changes.lanes[self.lane] = batch.lane_rows[self.lane]
        is_head = batch.head_run(self.key) is None
        rank = QueueRank.READY if is_head else QueueRank.BEHIND
        accepted = self._add_run(batch, rank)
        batch.deferred_results.append(accepted)
        return accepted

    def _record_rejected(
        self, batch: BatchState, refusal: Busy | ExistingOutput | LaneQueueFull
    ) -> None:
        self._add_run(batch, None, {"reason": _REJECT_REASONS[type(refusal)]})

    def _add_run(
        self, batch: BatchState, rank: QueueRank | None, details: StateDetails | None = None
    ) -> Accepted:
        seq = batch.seq + 1
        queue_deadline_at = None if rank is None else self._queue_deadline_at(batch.now)
        run = Run(
            seq=seq,
            id=self.run_id,
            key=self.key,
            lane=self.lane,
            job=self.job,
            mode=self.mode,
            recovery=self.recovery,
            status=RunStatus.REJECTED if rank is None else RunStatus.QUEUED,
            head_key=self.key if rank is QueueRank.READY else None,
            waiting_key=self.key if rank is QueueRank.BEHIND else None,
            queue_rank=None if rank is None else int(rank),
            ready_seq=seq if rank is QueueRank.READY else None,
            slot=None,
            instance_id=None,
            generation=0,
            token=NO_TOKEN,
            attempt=1,
            death_count=0,
            window=0,
            unread_count=0,
            queued_at=batch.now,
            started_at=None,
            ended_at=batch.now if rank is None else None,
            queue_deadline_at=queue_deadline_at,
            timeout_us=None if self.timeout_s is None else round(self.timeout_s * SECOND_US),
            run_deadline_at=None,
            wake_at=None,
            cancel_deadline_at=None,
            due_at=queue_deadline_at,
            run_seq=1,
            revision=1,
            continued_from=batch.latest_run_ids.get(self.key)
            if self.mode is RunMode.CONTINUE
            else None,
            parent_id=self.parent_id,
            child_of=None if rank is None else self.parent_id,
            on_existing_output=self._output_action(),
            traceparent=self.traceparent,
            updated_at=batch.now,
        )
        batch.add_run(run, self.params, details)
        self._update_latest(batch, run)
        self._save_idempotency(batch, run.id)
        return Accepted(run.id, seq, run)

    def _update_latest(self, batch: BatchState, run: Run) -> None:
        if run.is_active:
            batch.latest_run_ids[self.key] = run.id
        if self.mode is RunMode.CONTINUE and self.key in batch.latest_started_ids:
            batch.previous_run_ids[run.id] = batch.latest_started_ids[self.key]

    def _queue_deadline_at(self, now: Instant) -> Instant | None:
        seconds = self.queue_timeout_s
        return None if seconds is None else add_seconds(now, seconds=seconds)

    def _output_action(self) -> str | None:
        if self.mode is RunMode.CONTINUE or self.on_existing_output in (
            OnExistingOutput.ASK,
            OnExistingOutput.REPLACE,
        ):
            return None
        return self.on_existing_output.value

    def _save_idempotency(self, batch: BatchState, run_id: RunId) -> None:
        if self.idempotency_key is not None:
            save_record(batch, self.idempotency_key, self.fingerprint, run_id)


class RunDefaults(Protocol):
    """The defaults that a job, or one of its schedules, specifies for its runs."""

    @property
    def lane(self) -> LaneName: ...
    @property
    def timeout_s(self) -> float | None: ...
    @property
    def queue_timeout_s(self) -> float | None: ...
    @property
    def recovery(self) -> Recovery: ...


def make_submit(
    defaults: RunDefaults,
    job: str,
    run_id: RunId,
    *,
    key: str | None,
    lane: str | None = None,
    timeout_s: TimeLimit = UNSET,
    queue_timeout_s: float | None = None,
    **request: Any,
) -> Submit:
    """Return the Submit command for a request, with the defaults of its job.

    If `key` is None, the run's id is its key. `request` contains further fields of Submit.
    """
    return Submit(
        run_id=run_id,
        key=Key(run_id if key is None else key),
        job=job,
        lane=defaults.lane if lane is None else LaneName(lane),
        timeout_s=resolve_limit(timeout_s, defaults.timeout_s),
        queue_timeout_s=defaults.queue_timeout_s if queue_timeout_s is None else queue_timeout_s,
        recovery=defaults.recovery,
        **request,
    )


_REJECT_REASONS: Final[Mapping[type, RejectReason]] = {
    Busy: "busy",
    ExistingOutput: "output",
    LaneQueueFull: "no_room",
}
