"""The rows that a batch of commands has locked, and the changes that it decides.

The store loads a BatchState, lets each command decide in turn, and writes the changes in one
transaction. A command sees the effects of the earlier commands of the batch, so a batch has the
same result as its commands applied one by one. Nothing here does I/O.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from headway.core.document import NULL, Document
from headway.core.event_payloads import (
    AnswersUnread,
    EventContent,
    MessagesUnread,
    Payload,
    StateDetails,
    UnreadAnswer,
    UnreadMessage,
    encode_transition,
    encode_unread_answer,
    encode_unread_message,
)
from headway.core.flow.engine.records import FLOW_JOB, FlowChanges, LoadedTasks, SavedFlow
from headway.core.ids import Flag, InstanceId, Instant, Key, LaneName, RunId
from headway.core.json_encoder import Json
from headway.core.lane_row import LaneRow
from headway.core.run.deadlines import apply_changes
from headway.core.run.events import Event, EventType
from headway.core.run.run import NO_TOKEN, Claim, QueueRank, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL, TRANSITIONS, Trigger
from headway.core.schedule import SavedSchedule
from headway.core.secret import redact
from headway.core.stored_file import FileAddress, KeyOutput, StoredFile
from headway.core.worker.saved_worker import SavedWorker

M = TypeVar("M")
MESSAGE: Final = "message"
"""The `kind` of an inbox item that a person or a program has sent to a job."""
CARRIED_GENERATION: Final = 0
"""The `consumed_generation` of a message that moved to a replacing run. Claims count from 1."""
UNREAD_SHOWN_COUNT_MAX: Final = 20
UNREAD_SHOWN_LENGTH_MAX: Final = 65_536
"""The maximum length of the unread messages or answers in one event, in characters."""


class Instance(NamedTuple):
    id: InstanceId
    lease_expires_at: Instant
    is_dead: Flag
    host: str
    pid: int
    started_at: Instant
    life_lock: str | None = None
    """The name of the lock that the process holds while it runs, or None if it holds no lock."""


class InboxItem(NamedTuple):
    run_id: RunId
    seq: int
    kind: str
    call_id: str | None
    payload: str
    by: str
    at: Instant
    consumed_generation: int | None
    """The generation that consumed the item, or CARRIED_GENERATION. None while it is unread."""


class Interrupt(NamedTuple):
    """A question that a job asks people. The row exists until the question is closed."""

    run_id: RunId
    call_id: str
    generation: int
    """The generation of the execution that asked last, or 0 if the question is withdrawn."""
    question: Document
    asked_at: Instant
    answer_deadline_at: Instant
    """When the job stops waiting for an answer."""
    answer_schema: Document | None
    """A JSON Schema that an answer must match."""
    default_answer: Document | None
    """The answer that counts if no person answers in time. None means a denial."""
    answer: Document | None
    answered_by: str | None
    answered_at: Instant | None


class SavedKey(NamedTuple):
    """The saved row of a key: the job and parameters that a person entered for its next run."""

    key: Key
    job: str
    params: str
    revision: int
    updated_at: Instant


class IdempotencyRecord(NamedTuple):
    """The first request with an idempotency key: its run and its fingerprint."""

    idempotency_key: str
    run_id: RunId
    fingerprint: str
    at: Instant


@dataclass(slots=True)
class LaneQueue:
    lane: LaneRow
    held_count: int = 0
    queued_count: int = 0
    """The number of runs that have not started. Counted only if the lane limits this number."""
    ready: list[tuple[int, int, RunId]] = field(default_factory=list)
    """A heap of (queue rank, `ready_seq`, run id). Stale if the run has other values."""


@dataclass(slots=True)
class Changes:
    """The changes that the batch has decided, for the store to write."""

    runs_added: dict[RunId, dict[str, Any]] = field(default_factory=dict)
    """Maps each new run to its documents. Its other columns are in `BatchState.runs`."""
    runs_changed: dict[RunId, dict[str, Any]] = field(default_factory=dict)
    """Maps each changed run to its changed columns, including documents."""
    runs_removed: dict[RunId, None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    lanes: dict[LaneName, LaneRow] = field(default_factory=dict)
    instances_added: dict[InstanceId, Instance] = field(default_factory=dict)
    instances: dict[InstanceId, Instance | None] = field(default_factory=dict)
    keys: dict[Key, SavedKey | None] = field(default_factory=dict)
    schedules: dict[str, SavedSchedule] = field(default_factory=dict)
    idempotency_records_added: dict[str, IdempotencyRecord] = field(default_factory=dict)
    idempotency_keys_removed: dict[str, None] = field(default_factory=dict)
    inbox_items_added: list[InboxItem] = field(default_factory=list)
    inbox_items_consumed: list[InboxItem] = field(default_factory=list)
    interrupts: dict[tuple[RunId, str], Interrupt | None] = field(default_factory=dict)
    files: dict[FileAddress, StoredFile | None] = field(default_factory=dict)
    pruned_seq: int | None = None
    flow: FlowChanges | None = None
    ended_task_ids: list[RunId] = field(default_factory=list)
    """Flow tasks that the batch ends."""
    is_probe: bool = False
    """True to commit even without other changes, to check that the store can write."""


class DeferredResult(Protocol):
    """A command's result that is complete only after the last decision of the batch."""

    def finalize(self, batch: "BatchState") -> None: ...


class BatchState:
    """The locked rows of a batch, with the changes of the commands decided so far."""

    def __init__(self, *, now: Instant, seq: int) -> None:
        self.now = now
        self.seq = seq
        self.pruned_seq = 0
        self.runs: dict[RunId, Run] = {}
        self.loaded_runs: dict[RunId, Run] = {}
        """The runs as they were when they were locked. The guards of the updates use them."""
        self.head_run_ids: dict[Key, RunId] = {}
        self.waiting_run_ids: dict[Key, list[RunId]] = {}
        self.latest_run_ids: dict[Key, RunId] = {}
        """Maps each key to its newest run that is active or has started."""
        self.previous_run_ids: dict[RunId, RunId] = {}
        """Maps each run with mode `continue` to the newest run of its key that started earlier."""
        self.latest_started_ids: dict[Key, RunId] = {}
        """Maps each key to its newest run that has started."""
        self.other_started_seqs: dict[Key, int] = {}
        """The `seq` of each key's newest started run, not counting the runs that may be pruned."""
        self.lane_queues: dict[LaneName, LaneQueue] = {}
        self.lane_rows: dict[LaneName, LaneRow] = {}
        self.loaded_lane_rows: dict[LaneName, LaneRow] = {}
        self.instances: dict[InstanceId, Instance] = {}
        self.idempotency_records: dict[str, IdempotencyRecord] = {}
        self.inbox: dict[RunId, list[InboxItem]] = {}
        self.consumed_items: dict[RunId, list[InboxItem]] = {}
        """Inbox items that were already consumed, for commands that read them again."""
        self.interrupts: dict[RunId, dict[str, Interrupt]] = {}
        self.loaded_interrupts: set[tuple[RunId, str]] = set()
        self.keys: dict[Key, SavedKey] = {}
        self.loaded_keys: dict[Key, SavedKey] = {}
        self.schedules: dict[str, SavedSchedule] = {}
        self.loaded_schedules: dict[str, SavedSchedule] = {}
        self.flows: dict[str, SavedFlow] = {}
        self.tasks = LoadedTasks()
        self.workers: dict[str, SavedWorker] = {}
        self.child_counts: dict[RunId, int] = {}
        """Maps each run that may start another child to the number of its active children."""
        self.active_unlocked_ids: set[RunId] = set()
        """Runs that are not locked and were active when they were read."""
        self.files: dict[FileAddress, StoredFile] = {}
        self.loaded_files: dict[FileAddress, StoredFile] = {}
        self.outputs: dict[Key, KeyOutput] = {}
        self.params: dict[RunId, str] = {}
        """Parameters of claimable runs."""
        self.checkpoints: dict[RunId, str] = {}
        """Checkpoints of claimable runs, and of the runs they continue from."""
        self.deferred_results: list[DeferredResult] = []
        """Results that contain a run as it is at the end of the batch."""
        self.changes = Changes()

    def finalize(self) -> bool:
        """Update the deferred results, and return whether the batch has changes to write.

        Call after the last decision of the batch.
        """
        for answer in self.deferred_results:
            answer.finalize(self)
        return self.changes != _NO_CHANGES

    # Loading: called by the store.

    def load_run(self, run: Run) -> None:
        if run.id in self.loaded_runs:
            return
        self.runs[run.id] = self.loaded_runs[run.id] = run
        if run.head_key is not None:
            self.head_run_ids[run.head_key] = run.id

    def load_ready(self, run: Run) -> None:
        """Load a claimable run, and add it to the queue of its lane."""
        self.load_run(run)
        assert run.queue_rank is not None
        assert run.ready_seq is not None
        heappush(self.lane_queues[run.lane].ready, (run.queue_rank, run.ready_seq, run.id))

    # Reading.

    def run(self, run_id: RunId) -> Run | None:
        return self.runs.get(run_id)

    def head_run(self, key: Key) -> Run | None:
        run_id = self.head_run_ids.get(key)
        return None if run_id is None else self.runs[run_id]

    def held_run(self, claim: Claim) -> Run | None:
        """Return the run of a claim, or None if the claim is stale.

        This fence checks every command of an executor.
        """
        run = self.runs.get(claim.run_id)
        if run is None or run.token == NO_TOKEN or run.token != claim.token:
            return None
        return run

    def is_active(self, run_id: RunId) -> bool:
        """Return whether a run is active. It must be loaded, or be the parent of a run to prune."""
        run = self.runs.get(run_id)
        return run_id in self.active_unlocked_ids if run is None else run.is_active

    def active_runs(self, key: Key) -> Iterator[Run]:
        """Yield the key's active runs, head first. The key must be in `RowsNeeded.whole_keys`."""
        head = self.head_run(key)
        if head is not None:
            yield head
            for run_id in list(self.waiting_run_ids[key]):
                yield self.runs[run_id]

    def unread_messages(self, run: Run) -> list[InboxItem]:
        """Return a run's unread messages. The run must have been loaded with `may_end=True`."""
        return [item for item in self.inbox.get(run.id, ()) if item.kind == MESSAGE]

    def unread_answers(self, run: Run) -> list[Interrupt]:
        """Return a run's answered questions whose answers its job has not received.

        A job that receives an answer closes the question, which removes its row.
        """
        interrupts = self.interrupts.get(run.id, {}).values()
        return [interrupt for interrupt in interrupts if interrupt.answer is not None]

    def pop_ready(self, queue: LaneQueue) -> Run | None:
        """Remove and return the next claimable run of a lane, or None. Drop stale entries."""
        while queue.ready:
            rank, ready_seq, run_id = heappop(queue.ready)
            run = self.runs[run_id]
            if (run.queue_rank, run.ready_seq) == (rank, ready_seq):
                return run
        return None

    # Writing.

    def emit(self, run: Run, content: EventContent, **changes: Any) -> Run:
        """Append an event of `run`, increment its `run_seq`, and apply `changes` to the run.

        `changes` must not affect the counts of a lane: use `update` for such changes.
        """
        payload = content.encode()
        changes["run_seq"] = self._append(run, run.run_seq + 1, content.type, payload)
        return self._record(run, changes)

    def emit_global(
        self, payload: Payload, *, key: Key | None = None, lane: LaneName | None = None
    ) -> None:
        """Append an event that belongs to no run."""
        self.seq += 1
        text = payload.encode()
        self.changes.events.append(
            Event(self.seq, None, None, key, lane, payload.type, text, self.now)
        )

    def add_run(self, run: Run, params: str, details: StateDetails | None = None) -> None:
        """Add a new run with its first event. `run.seq` must be the `seq` of that event."""
        assert run.seq == self.seq + 1
        payload = encode_transition(None, run.status, details)
        self._append(run, run.run_seq, EventType.STATE_CHANGED, payload)
        self.runs[run.id] = run
        self.changes.runs_added[run.id] = {"params": params}
        self.params[run.id] = params
        if run.head_key is not None:
            self.head_run_ids[run.head_key] = run.id
            self.waiting_run_ids.setdefault(run.head_key, [])
        elif run.waiting_key is not None and run.waiting_key in self.waiting_run_ids:
            self.waiting_run_ids[run.waiting_key].append(run.id)
        self._update_lane_counts(None, run)
        self._count_child(run.child_of, +1)

    def update(self, run: Run, documents: dict[str, Any] | None = None, **changes: Any) -> Run:
        """Change `run`, but not its status. `documents` are columns that no decision reads."""
        after = self._record(run, changes, documents)
        self._update_lane_counts(run, after)
        return after

    def move(
        self,
        run: Run,
        trigger: Trigger,
        *,
        details: StateDetails | None = None,
        documents: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Run | None:
        """Change the status of `run` as the transition table allows, and append one event.

        Return None if the table does not allow `trigger`. If the run ends, also report its unread
        messages and answers, free everything that it holds, and give its key to the next run.
        """
        status = TRANSITIONS[trigger].get(run.status)
        if status is None:
            return None
        if status in TERMINAL:
            # Report unread items before the end, because followers of the run stop reading there.
            run = self._report_unread(run)
        payload = encode_transition(run.status, status, details)
        changes["status"] = status
        run_seq = run.run_seq + 1
        changes["run_seq"] = self._append(run, run_seq, EventType.STATE_CHANGED, payload)
        if run.is_parent and run.children_ending_since is None and status is not RunStatus.RUNNING:
            changes["children_ending_since"] = self.now
        if status in TERMINAL:
            changes = _CLEARED_AT_END | changes
            changes["ended_at"] = self.now
            self._count_child(run.child_of, -1)
            if run.job == FLOW_JOB:
                self.changes.ended_task_ids.append(run.id)
        if status is RunStatus.CANCELED and run.delete_files_on_cancel:
            # Otherwise a run that continues this run would rely on files that are deleted.
            documents = {**(documents or {}), "checkpoint": None}
            self.checkpoints.pop(run.id, None)
        after = self._record(run, changes, documents)
        self._update_lane_counts(run, after)
        if status in TERMINAL:
            self._release_key(run)
        return after

    def _report_unread(self, run: Run) -> Run:
        if messages := self.unread_messages(run):
            run = self.emit(
                run, MessagesUnread(len(messages), _take_fitting(map(_unread_message, messages)))
            )
        if answers := self.unread_answers(run):
            run = self.emit(
                run, AnswersUnread(len(answers), _take_fitting(map(_unread_answer, answers)))
            )
        return run

    def put_file(self, file: StoredFile) -> None:
        if file.address not in self.files:
            count, example = self.outputs.get(file.key, (0, file.path))
            self.outputs[file.key] = KeyOutput(count + 1, example)
        self.files[file.address] = self.changes.files[file.address] = file

    def remove_file(self, address: FileAddress) -> None:
        del self.files[address]
        self.changes.files[address] = None
        count, example = self.outputs.pop(address.key, (0, ""))
        if count > 1:
            self.outputs[address.key] = KeyOutput(count - 1, example)

    def _append(self, run: Run, run_seq: int, kind: str, payload: str) -> int:
        self.seq += 1
        self.changes.events.append(
            Event(self.seq, run.id, run_seq, run.key, run.lane, kind, payload, self.now)
        )
        return run_seq

    def _release_key(self, run: Run) -> None:
        if run.waiting_key is not None:
            waiting = self.waiting_run_ids.get(run.key)
            if waiting and run.id in waiting:
                waiting.remove(run.id)
            return
        if run.head_key is None:
            return
        del self.head_run_ids[run.key]
        waiting = self.waiting_run_ids[run.key]
        if waiting:
            heir = self.runs[waiting.pop(0)]
            # The heir has been ready since `run` ended: `self.seq` is the `seq` of that event.
            self.update(
                heir,
                head_key=run.key,
                waiting_key=None,
                queue_rank=int(QueueRank.READY),
                ready_seq=self.seq,
            )
            self.head_run_ids[run.key] = heir.id

    def _record(
        self, run: Run, changes: dict[str, Any], documents: dict[str, Any] | None = None
    ) -> Run:
        changes["revision"] = run.revision + 1
        changes["updated_at"] = self.now
        after, changes = apply_changes(run, changes)
        self.runs[run.id] = after
        documents_added = self.changes.runs_added.get(run.id)
        if documents_added is not None:
            documents_added.update(documents or {})
            return after
        if documents:
            changes.update(documents)
        recorded = self.changes.runs_changed.setdefault(run.id, changes)
        if recorded is not changes:
            recorded.update(changes)
        return after

    def _count_child(self, parent_id: RunId | None, change: int) -> None:
        if parent_id is not None and parent_id in self.child_counts:
            self.child_counts[parent_id] += change

    def _update_lane_counts(self, before: Run | None, after: Run) -> None:
        """Update the counts and the queue of the lane for later commands of the batch."""
        queue = self.lane_queues.get(after.lane)
        if queue is None:
            return
        slot_before = before is not None and before.slot is not None
        queue.held_count += (after.slot is not None) - slot_before
        queued_before = before is not None and before.status is RunStatus.QUEUED
        queue.queued_count += (after.status is RunStatus.QUEUED) - queued_before
        if after.ready_seq is not None and (before is None or before.ready_seq != after.ready_seq):
            assert after.queue_rank is not None
            heappush(queue.ready, (after.queue_rank, after.ready_seq, after.id))


def _unread_message(item: InboxItem) -> Json[UnreadMessage]:
    return encode_unread_message(seq=item.seq, by=item.by, message=Document(redact(item.payload)))


def _unread_answer(interrupt: Interrupt) -> Json[UnreadAnswer]:
    return encode_unread_answer(
        call_id=interrupt.call_id,
        by=interrupt.answered_by,
        answer=Document(redact(interrupt.answer or NULL)),
    )


def _take_fitting(items: Iterator[Json[M]]) -> list[Json[M]]:
    """Return the first items, as many as fit into one event."""
    shown: list[Json[M]] = []
    length = 0
    for item in islice(items, UNREAD_SHOWN_COUNT_MAX):
        length += len(item)
        if length > UNREAD_SHOWN_LENGTH_MAX:
            break
        shown.append(item)
    return shown


_CLEARED_AT_END: dict[str, Any] = {
    "head_key": None,
    "waiting_key": None,
    "queue_rank": None,
    "ready_seq": None,
    "slot": None,
    "instance_id": None,
    "token": NO_TOKEN,
    "window": 0,
    "run_deadline_at": None,
    "wake_at": None,
    "cancel_deadline_at": None,
    "child_of": None,
}
_NO_CHANGES = Changes()
