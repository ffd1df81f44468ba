"""The inbox of a run: one mechanism for messages, answers, signals and approvals."""

from dataclasses import dataclass
from typing import ClassVar, Final

from headway.core.batch_state import (
    CARRIED_GENERATION,
    MESSAGE,
    BatchState,
    InboxItem,
)
from headway.core.command.protocol import HolderCommand, RowsNeeded
from headway.core.command.run.idempotency import (
    IdempotencyMismatch,
    Repeated,
    find_earlier,
    make_fingerprint,
    save_record,
)
from headway.core.command.run.interrupt import (
    CALL_ID_LENGTH_MAX,
    AnswerMismatch,
    NoOpenInterrupt,
    answer_interrupt,
)
from headway.core.command.run.wait import wake
from headway.core.document import Document, check_name, check_text, trim_names
from headway.core.errors import InvalidInput
from headway.core.event_payloads import (
    MessagePosted,
    MessageRead,
    MessagesCarried,
    MessagesConsumed,
)
from headway.core.flow.engine.records import FLOW_JOB
from headway.core.ids import RunId
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.window import Delivery, Refusal, Window, message_refusal
from headway.core.secret import redact

ANSWER: Final = "answer"
"""The `kind` of an inbox item that answers a question. Its `call_id` names the question."""
UNREAD_COUNT_MAX: Final = 1_000
KIND_LENGTH_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Posted:
    seq: int


@dataclass(frozen=True, slots=True)
class InboxFull:
    unread_count_max: int


@dataclass(frozen=True, slots=True)
class UnknownRun:
    """There is no run with this id."""


@dataclass(frozen=True, slots=True)
class NotActive:
    """The run has ended or is cancelling, or a signal names a task that does not exist."""


@dataclass(frozen=True, slots=True)
class MessageNotAccepted:
    """The run is active but does not accept this message now."""

    refusal: Refusal
    can_wait: bool = False
    """True if the message would be accepted with `Delivery.WHEN_LISTENING`."""


PostResult = (
    Posted
    | InboxFull
    | UnknownRun
    | NotActive
    | NoOpenInterrupt
    | MessageNotAccepted
    | IdempotencyMismatch
    | Repeated
    | AnswerMismatch
)


def post(
    batch: BatchState,
    run: Run,
    *,
    kind: str,
    payload: str,
    by: str,
    call_id: str | None = None,
    carried_from: RunId | None = None,
) -> Posted | InboxFull:
    """Put an item into the inbox of an active run, and wake the run if it is parked."""
    # Answers have no limit: each needs an open question, whose job reads nothing else meanwhile.
    if kind != ANSWER and run.unread_count >= UNREAD_COUNT_MAX:
        return InboxFull(UNREAD_COUNT_MAX)
    if run.unread_count == 0:  # Its inbox is empty: no query is needed.
        batch.inbox.setdefault(run.id, [])
    run = batch.update(run, unread_count=run.unread_count + 1)
    run = batch.emit(run, MessagePosted(kind, carried_from))
    item = InboxItem(run.id, batch.seq, kind, call_id, payload, by, batch.now, None)
    batch.changes.inbox_items_added.append(item)
    if run.id in batch.inbox:
        batch.inbox[run.id].append(item)
    if run.is_parked:
        wake(batch, run)
    return Posted(item.seq)


def take_unread(
    batch: BatchState, run: Run, *, to_run_id: RunId, count_max: int
) -> list[InboxItem]:
    """Take up to `count_max` unread messages from a replaced run, and record where they go.

    The caller posts them to the run `to_run_id`. The replaced run reports the messages that are
    left when it ends.
    """
    items = batch.unread_messages(run)[:count_max]
    if items:
        taken_seqs = {item.seq for item in items}
        batch.changes.inbox_items_consumed.extend(
            item._replace(consumed_generation=CARRIED_GENERATION) for item in items
        )
        batch.inbox[run.id] = [item for item in batch.inbox[run.id] if item.seq not in taken_seqs]
        run = batch.update(run, unread_count=run.unread_count - len(items))
        batch.emit(run, MessagesCarried(len(items), to_run_id))
    return items


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToInbox:
    """Post a message, or an answer to a question, to the inbox of a run."""

    run_id: RunId
    kind: str = MESSAGE
    payload: Document
    by: str = ""
    call_id: str | None = None
    delivery: Delivery = Delivery.NOW
    """When a message is delivered. Items of other kinds are always stored until they are read."""
    idempotency_key: str | None = None

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.idempotency_key is not None:
            trim_names(self, "idempotency_key")
        check_name(self.kind, field="kind", length_max=KIND_LENGTH_MAX)
        check_text(self.by, field="by")
        if self.call_id is None:
            if self.kind == ANSWER:
                raise InvalidInput("call_id", "must name the question that is answered")
        else:
            check_name(self.call_id, field="call_id", length_max=CALL_ID_LENGTH_MAX)

    def document_length(self) -> int:
        return len(self.payload)

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.run_id, may_wake=True)
        if self.kind == ANSWER:
            rows.interrupt_run_ids[self.run_id] = None
        if self.idempotency_key is not None:
            rows.idempotency_keys[self.idempotency_key] = None

    def decide(self, batch: BatchState) -> PostResult:
        if self.idempotency_key is None:
            return self._post(batch)
        arguments = [self.kind, self.run_id, self.call_id, self.payload]
        if self.delivery is not Delivery.NOW:  # Older fingerprints lack this field.
            arguments.append(self.delivery.value)
        fingerprint = make_fingerprint(*arguments)
        earlier = find_earlier(batch, self.idempotency_key, fingerprint)
        if earlier is not None:
            return earlier
        answer = self._post(batch)
        if isinstance(answer, Posted):
            save_record(batch, self.idempotency_key, fingerprint, self.run_id)
        return answer

    def _post(self, batch: BatchState) -> PostResult:
        """Post the item. The first accepted answer to a question is final."""
        run = batch.run(self.run_id)
        if run is None:
            return UnknownRun()
        if run.status not in (RunStatus.QUEUED, RunStatus.RUNNING):
            return NotActive()
        if self.kind == MESSAGE:
            refusal = self._refuse_message(run)
            if refusal is not None:
                return refusal
        if self.kind == ANSWER:
            assert self.call_id is not None
            answer_refusal = answer_interrupt(
                batch, run, call_id=self.call_id, answer=self.payload, by=self.by
            )
            if answer_refusal is not None:
                return answer_refusal
        return post(
            batch, run, kind=self.kind, payload=self.payload, by=self.by, call_id=self.call_id
        )

    def _refuse_message(self, run: Run) -> MessageNotAccepted | None:
        """Return why the run refuses the message, or None if the run's job will receive it."""
        if run.job == FLOW_JOB:
            return MessageNotAccepted(Refusal.FLOW_TASK)
        if run.status is RunStatus.QUEUED and self.delivery is Delivery.NOW:
            return MessageNotAccepted(Refusal.NOT_STARTED, can_wait=True)
        refusal = message_refusal(run.window, self.delivery)
        if refusal is None:
            return None
        return MessageNotAccepted(refusal, can_wait=run.window != Window.CLOSED)


@dataclass(frozen=True, slots=True)
class ConsumeInbox(HolderCommand[tuple[InboxItem, ...] | None]):
    """Take all unread items of one kind, in order. The result is None if the claim is stale."""

    kind: str = MESSAGE
    replay_after_seq: int | None = None
    """Also return the items after this `seq` that this claim has already consumed.

    Set by a caller that lost the result of an earlier `ConsumeInbox`.
    """
    open_window: bool = False
    """True to make the run listen, unless the execution has opened or closed a window itself."""

    may_free_capacity: ClassVar[bool] = False
    stale_answer: ClassVar[None] = None

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)
        rows.add_inbox(self.claim.run_id, self.kind)
        if self.replay_after_seq is not None:
            rows.add_consumed(self.claim.run_id, after_seq=self.replay_after_seq)

    def decide_held(self, batch: BatchState, run: Run) -> tuple[InboxItem, ...]:
        has_no_window = run.window == Window.NONE and run.status is RunStatus.RUNNING
        if self.open_window and has_no_window:
            run = batch.update(run, window=int(Window.STREAMING))
        unread = batch.inbox[run.id]
        items = tuple(
            item._replace(consumed_generation=run.generation)
            for item in unread
            if item.kind == self.kind
        )
        batch.inbox[run.id] = [item for item in unread if item.kind != self.kind]
        replayed = tuple(
            item
            for item in batch.consumed_items.get(run.id, ())
            if item.kind == self.kind
            and item.consumed_generation == run.generation
            and item.seq > (self.replay_after_seq or 0)
        )
        if items:
            batch.changes.inbox_items_consumed.extend(items)
            batch.consumed_items.setdefault(run.id, []).extend(items)
            run = batch.update(run, unread_count=run.unread_count - len(items))
            run = batch.emit(run, MessagesConsumed(len(items)))
            for item in items:
                if item.kind == MESSAGE:
                    message = Document(redact(item.payload))
                    run = batch.emit(run, MessageRead(item.seq, item.by, message))
        return items if self.replay_after_seq is None else replayed + items
