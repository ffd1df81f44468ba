"""The inbox of a run: messages, answers, signals and approvals, one mechanism for all."""

from dataclasses import dataclass
from typing import Final

from headway.core.command.command import Needs, trim_names
from headway.core.command.once import (
    OtherRequest,
    Repeated,
    fingerprint_of,
    recalled,
    remember,
)
from headway.core.command.question import CALL_ID_LENGTH_MAX, NotAsked, Unfit, answer_question
from headway.core.command.wait import wake
from headway.core.document import Document, check_name, check_text, encode_document
from headway.core.errors import InvalidInput
from headway.core.ids import RunId
from headway.core.run.events import EventType
from headway.core.run.run import Claim, Run
from headway.core.run.status import RunStatus
from headway.core.run.window import Refusal, refusal_of
from headway.core.secret import veiled
from headway.core.world import InboxItem, World

MESSAGE: Final = "message"
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
class NotActive:
    """There is no such run, or it is over."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The run is active, and takes no message now."""

    refusal: Refusal


PostAnswer = Posted | InboxFull | NotActive | NotAsked | NotTaken | OtherRequest | Repeated | Unfit


def post(
    world: World, run: Run, *, kind: str, payload: Document, by: str, call_id: str | None = None
) -> Posted | InboxFull:
    """Put an item into the inbox of an active run, and wake the run if it is parked."""
    # There are no more answers than questions, and whoever waits for one reads nothing else.
    if kind != ANSWER and run.unread_count >= UNREAD_COUNT_MAX:
        return InboxFull(UNREAD_COUNT_MAX)
    run = world.update(run, unread_count=run.unread_count + 1)
    told = encode_document({"kind": kind}, place="kind")
    run = world.emit(run, EventType.MESSAGE_POSTED, told)
    item = InboxItem(run.id, world.seq, kind, call_id, payload, by, world.now, None)
    world.changes.posted.append(item)
    if run.id in world.inbox:
        world.inbox[run.id].append(item)
    if run.is_parked:
        wake(world, run)
    return Posted(item.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostToInbox:
    run_id: RunId
    kind: str = MESSAGE
    payload: Document
    by: str = ""
    call_id: str | None = None
    is_steering: bool = False
    """Only for a loop that listens now: it is not left in an inbox that nobody looks into."""
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        if self.idempotency_key is not None:
            trim_names(self, "idempotency_key")
        check_name(self.kind, place="kind", length_max=KIND_LENGTH_MAX)
        check_text(self.by, place="by")
        if self.call_id is None:
            if self.kind == ANSWER:
                raise InvalidInput("call_id", "must name the question that is answered")
        else:
            check_name(self.call_id, place="call_id", length_max=CALL_ID_LENGTH_MAX)

    def need(self, needs: Needs) -> None:
        needs.run(self.run_id, may_wake=True)
        if self.kind == ANSWER:
            needs.question_run_ids[self.run_id] = None
        if self.idempotency_key is not None:
            needs.idempotency_keys[self.idempotency_key] = None

    def decide(self, world: World) -> PostAnswer:
        if self.idempotency_key is None:
            return self._post(world)
        fingerprint = fingerprint_of(self.kind, self.run_id, self.call_id, self.payload)
        earlier = recalled(world, self.idempotency_key, fingerprint)
        if earlier is not None:
            return earlier
        answer = self._post(world)
        if isinstance(answer, Posted):
            remember(world, self.idempotency_key, fingerprint, self.run_id)
        return answer

    def _post(self, world: World) -> PostAnswer:
        """An answer that is taken is the one that stands: there is no other to the question."""
        run = world.run(self.run_id)
        if run is None or run.status not in (RunStatus.QUEUED, RunStatus.RUNNING):
            return NotActive()
        if self.kind == MESSAGE:
            not_now = refusal_of(run.is_interactive, is_steering=self.is_steering)
            if not_now is not None:
                return NotTaken(not_now)
        if self.kind == ANSWER:
            assert self.call_id is not None
            refusal = answer_question(
                world, run, call_id=self.call_id, answer=self.payload, by=self.by
            )
            if refusal is not None:
                return refusal
        return post(
            world, run, kind=self.kind, payload=self.payload, by=self.by, call_id=self.call_id
        )


@dataclass(frozen=True, slots=True)
class ConsumeInbox:
    """Take all of a kind that is unread, in order, at once; only the holder of the claim may."""

    claim: Claim
    kind: str = MESSAGE
    again_after: int | None = None
    """Also what this claim has consumed after the item with this `seq`: an answer was lost."""

    def need(self, needs: Needs) -> None:
        needs.run(self.claim.run_id)
        needs.inbox(self.claim.run_id, self.kind)
        if self.again_after is not None:
            needs.consumed(self.claim.run_id, after_seq=self.again_after)

    def decide(self, world: World) -> tuple[InboxItem, ...] | None:
        run = world.held(self.claim)
        if run is None:
            return None
        unread = world.inbox[run.id]
        items = tuple(
            item._replace(consumed_by=run.generation) for item in unread if item.kind == self.kind
        )
        world.inbox[run.id] = [item for item in unread if item.kind != self.kind]
        again = tuple(
            item
            for item in world.consumed.get(run.id, ())
            if item.kind == self.kind
            and item.consumed_by == run.generation
            and item.seq > (self.again_after or 0)
        )
        if items:
            world.changes.consumed.extend(items)
            world.consumed.setdefault(run.id, []).extend(items)
            run = world.update(run, unread_count=run.unread_count - len(items))
            run = world.emit(run, EventType.MESSAGES_CONSUMED, f'{{"count":{len(items)}}}')
            for item in items:
                if item.kind == MESSAGE:
                    run = world.emit(run, EventType.QUEUED_MESSAGE, _told(item))
        return items if self.again_after is None else again + items


def _told(item: InboxItem) -> str:
    by = encode_document(item.by, place="by")
    return f'{{"seq":{item.seq},"by":{by},"message":{veiled(item.payload)}}}'
