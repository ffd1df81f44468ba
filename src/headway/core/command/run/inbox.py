"""The inbox of a run: messages, answers, signals and approvals, one mechanism for all."""

from dataclasses import dataclass
from typing import Final

from headway.core.batch_state import (
    CARRIED_GENERATION,
    MESSAGE,
    BatchState,
    InboxItem,
    encode_message,
)
from headway.core.command.protocol import RowsNeeded, trim_names
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
from headway.core.document import Document, check_name, check_text, encode_document
from headway.core.errors import InvalidInput
from headway.core.flow.engine.records import FLOW_JOB
from headway.core.ids import RunId
from headway.core.run.events import EventType
from headway.core.run.run import Claim, Run
from headway.core.run.status import RunStatus
from headway.core.run.window import Delivery, Refusal, Window, message_refusal

ANSWER: Final = "answer"
"""To the question that its `call_id` names."""
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
    """The run has ended or is cancelling. For a signal: or there is no such task."""


@dataclass(frozen=True, slots=True)
class MessageNotAccepted:
    """The run is active, and does not accept this message now."""

    refusal: Refusal
    can_wait: bool = False
    """Whether `Delivery.WHEN_LISTENING` would be accepted."""


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
    world: BatchState,
    run: Run,
    *,
    kind: str,
    payload: str,
    by: str,
    call_id: str | None = None,
    details: str = "",
) -> Posted | InboxFull:
    """Put an item into the inbox of an active run, and wake the run if it is parked.

    `details` are further members of the event, encoded as JSON.
    """
    # There are no more answers than questions, and whoever waits for one reads nothing else.
    if kind != ANSWER and run.unread_count >= UNREAD_COUNT_MAX:
        return InboxFull(UNREAD_COUNT_MAX)
    if run.unread_count == 0:  # Its inbox is empty: no query is needed.
        world.inbox.setdefault(run.id, [])
    run = world.update(run, unread_count=run.unread_count + 1)
    told = f'{{"kind":{encode_document(kind, field="kind")}{details}}}'
    run = world.emit(run, EventType.MESSAGE_POSTED, told)
    item = InboxItem(run.id, world.seq, kind, call_id, payload, by, world.now, None)
    world.changes.inbox_items_added.append(item)
    if run.id in world.inbox:
        world.inbox[run.id].append(item)
    if run.is_parked:
        wake(world, run)
    return Posted(item.seq)


def take_unread(
    world: BatchState, run: Run, *, to_run_id: RunId, count_max: int
) -> list[InboxItem]:
    """Take the unread messages of a run that is replaced, and record where they go.

    The caller posts them to the run `to_run_id`. The run reports the others when it ends.
    """
    items = world.unread_messages(run)[:count_max]
    if items:
        taken_seqs = {item.seq for item in items}
        world.changes.inbox_items_consumed.extend(
            item._replace(consumed_generation=CARRIED_GENERATION) for item in items
        )
        world.inbox[run.id] = [item for item in world.inbox[run.id] if item.seq not in taken_seqs]
        run = world.update(run, unread_count=run.unread_count - len(items))
        told = f'{{"count":{len(items)},"to":{encode_document(to_run_id, field="to")}}}'
        world.emit(run, EventType.MESSAGES_CARRIED, told)
    return items


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToInbox:
    run_id: RunId
    kind: str = MESSAGE
    payload: Document
    by: str = ""
    call_id: str | None = None
    delivery: Delivery = Delivery.NOW
    """When a message is delivered. Items of other kinds are always stored until they are read."""
    idempotency_key: str | None = None

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

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.run_id, may_wake=True)
        if self.kind == ANSWER:
            needs.interrupt_run_ids[self.run_id] = None
        if self.idempotency_key is not None:
            needs.idempotency_keys[self.idempotency_key] = None

    def decide(self, world: BatchState) -> PostResult:
        if self.idempotency_key is None:
            return self._post(world)
        said = [self.kind, self.run_id, self.call_id, self.payload]
        if self.delivery is not Delivery.NOW:  # Stored fingerprints lack this field.
            said.append(self.delivery.value)
        fingerprint = make_fingerprint(*said)
        earlier = find_earlier(world, self.idempotency_key, fingerprint)
        if earlier is not None:
            return earlier
        answer = self._post(world)
        if isinstance(answer, Posted):
            save_record(world, self.idempotency_key, fingerprint, self.run_id)
        return answer

    def _post(self, world: BatchState) -> PostResult:
        """Post the item. The first accepted answer to a question is final."""
        run = world.run(self.run_id)
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
            misfit = answer_interrupt(
                world, run, call_id=self.call_id, answer=self.payload, by=self.by
            )
            if misfit is not None:
                return misfit
        return post(
            world, run, kind=self.kind, payload=self.payload, by=self.by, call_id=self.call_id
        )

    def _refuse_message(self, run: Run) -> MessageNotAccepted | None:
        """Return why the run refuses the message, or None if the message will reach its job."""
        if run.job == FLOW_JOB:
            return MessageNotAccepted(Refusal.FLOW_TASK)
        if run.status is RunStatus.QUEUED and self.delivery is Delivery.NOW:
            return MessageNotAccepted(Refusal.NOT_STARTED, can_wait=True)
        refusal = message_refusal(run.window, self.delivery)
        if refusal is None:
            return None
        return MessageNotAccepted(refusal, can_wait=run.window != Window.CLOSED)


@dataclass(frozen=True, slots=True)
class ConsumeInbox:
    """Take all of a kind that is unread, in order, at once; only the holder of the claim may."""

    claim: Claim
    kind: str = MESSAGE
    replay_after_seq: int | None = None
    """Also what this claim has consumed after the item with this `seq`: an answer was lost."""
    open_window: bool = False
    """Make the run listen, unless the execution has opened or closed a window itself."""

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)
        needs.add_inbox(self.claim.run_id, self.kind)
        if self.replay_after_seq is not None:
            needs.add_consumed(self.claim.run_id, after_seq=self.replay_after_seq)

    def decide(self, world: BatchState) -> tuple[InboxItem, ...] | None:
        run = world.held_run(self.claim)
        if run is None:
            return None
        has_no_window = run.window == Window.NONE and run.status is RunStatus.RUNNING
        if self.open_window and has_no_window:
            run = world.update(run, window=int(Window.STREAMING))
        unread = world.inbox[run.id]
        items = tuple(
            item._replace(consumed_generation=run.generation)
            for item in unread
            if item.kind == self.kind
        )
        world.inbox[run.id] = [item for item in unread if item.kind != self.kind]
        again = tuple(
            item
            for item in world.consumed_items.get(run.id, ())
            if item.kind == self.kind
            and item.consumed_generation == run.generation
            and item.seq > (self.replay_after_seq or 0)
        )
        if items:
            world.changes.inbox_items_consumed.extend(items)
            world.consumed_items.setdefault(run.id, []).extend(items)
            run = world.update(run, unread_count=run.unread_count - len(items))
            run = world.emit(run, EventType.MESSAGES_CONSUMED, f'{{"count":{len(items)}}}')
            for item in items:
                if item.kind == MESSAGE:
                    run = world.emit(run, EventType.QUEUED_MESSAGE, encode_message(item))
        return items if self.replay_after_seq is None else again + items
