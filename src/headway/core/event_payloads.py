"""The payload of each event type, as a class that describes its members.

A class names its event type, so that an event cannot have the payload of another type. The OpenAPI
document and docs/events.md are generated from these classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, Literal, Protocol, TypedDict

from headway.core.document import Document
from headway.core.flow.engine.state import NodeRunStatus
from headway.core.ids import RunId
from headway.core.json_encoder import Json, derive_encoder, derive_object_encoder
from headway.core.run.events import EventType
from headway.core.run.run import FilesOnCancel
from headway.core.run.status import RunStatus


@cache
def _object_encoder(described: Any) -> Callable[[Any], str]:
    return derive_object_encoder(described)


class EventContent(Protocol):
    """The type and the payload of an event."""

    @property
    def type(self) -> str: ...

    def encode(self) -> str:
        """Return the payload as JSON."""


class Payload:
    """The payload of an event type. Each subclass is for one type."""

    type: ClassVar[EventType]
    may_free_capacity: ClassVar[bool] = False
    """True if a run may be ready or a slot may be free now. Other instances then claim at once."""

    def encode(self) -> str:
        described: Any = type(self)
        return _object_encoder(described)(self)


class InterruptOutcome(StrEnum):
    """Why a question was closed."""

    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    """The process stopped, and the job asked with `on_shutdown="deny"`."""
    WITHDRAWN = "withdrawn"
    """The attempt that asked has failed, or a later execution asked a different question."""


RejectReason = Literal["busy", "output", "no_room"]
TimeoutClock = Literal["queue", "execution"]


@dataclass(frozen=True)
class CancelIntent:
    """A request to cancel a run."""

    files: FilesOnCancel
    reason: str
    by: str


class StateDetails(TypedDict, total=False):
    """The members of `run_state_changed` that only some transitions have."""

    reason: RejectReason
    clock: TimeoutClock
    cancel: Json[CancelIntent]
    forced: bool
    error: Document


@dataclass(frozen=True)
class StateChanged(Payload):
    """The run has a new status. The first event of a run has no `from`.

    `reason` is why the run was rejected, `clock` is the time limit that was exceeded, and `cancel`
    is the request to cancel it. `forced` is true if the run did not end within its grace period.
    """

    type = EventType.STATE_CHANGED
    may_free_capacity = True
    from_: RunStatus | None
    to: RunStatus
    reason: RejectReason | None = None
    clock: TimeoutClock | None = None
    cancel: Json[CancelIntent] | None = None
    forced: bool | None = None
    error: Document | None = None


def encode_transition(
    before: RunStatus | None, after: RunStatus, details: StateDetails | None = None
) -> str:
    """Return the payload of a status change."""
    if details is None:
        return _encode_plain_transition(before, after)
    return StateChanged(before, after, **details).encode()


@lru_cache  # Every run has several plain transitions.
def _encode_plain_transition(before: RunStatus | None, after: RunStatus) -> str:
    return StateChanged(before, after).encode()


@dataclass(frozen=True)
class TakenOver(Payload):
    """The instance of the run was declared dead, and the run is ready again."""

    type = EventType.TAKEN_OVER
    may_free_capacity = True
    death_count: int


@dataclass(frozen=True)
class Resumed(Payload):
    """A run that waited continues: it has a slot again."""

    type = EventType.RESUMED
    generation: int


@dataclass(frozen=True)
class Waiting(Payload):
    """The run waits and has given its slot back. Its process keeps it in memory."""

    type = EventType.WAITING
    may_free_capacity = True


@dataclass(frozen=True)
class Retried(Payload):
    """An attempt failed, and another follows after `delay_s`. The run stays the head of its key."""

    type = EventType.RETRIED
    may_free_capacity = True
    attempt: int
    error: Document
    delay_s: float


@dataclass(frozen=True)
class Parked(Payload):
    """The run waits, and no process holds it.

    For a flow task, `waits_for` is the kind of wait, and `node` is the node that waits. `reason`
    and `stop_count` are present if the run's process stopped and another process continues it.
    """

    type = EventType.PARKED
    may_free_capacity = True
    waits_for: str | None = None
    node: str | None = None
    reason: Literal["handed_over"] | None = None
    stop_count: int | None = None


@dataclass(frozen=True)
class RunWoken(Payload):
    """A run that waited or was parked is ready and queues for a slot."""

    type = EventType.WOKEN
    may_free_capacity = True


@dataclass(frozen=True)
class Progressed(Payload):
    """The job has reported progress. The payload consists of the values that the job chose."""

    type = EventType.PROGRESS
    progress: Document

    def encode(self) -> str:
        return self.progress


@dataclass(frozen=True)
class CheckpointSaved(Payload):
    """The job has saved a checkpoint."""

    type = EventType.CHECKPOINT


@dataclass(frozen=True)
class LogLine:
    """A line that a job has logged. It may have further members."""

    level: str
    message: Any


@dataclass(frozen=True)
class Logged(Payload):
    """The job has logged these lines. Lines within a tenth of a second are one event."""

    type = EventType.LOG
    lines: list[Json[LogLine]]


@dataclass(frozen=True)
class MessagePosted(Payload):
    """The inbox of the run has received a `message`, an `answer`, a `signal` or a `child`.

    `carried_from` is the replaced run from which the message came.
    """

    type = EventType.MESSAGE_POSTED
    kind: str
    carried_from: RunId | None = None


@dataclass(frozen=True)
class MessagesConsumed(Payload):
    """The job has read its inbox."""

    type = EventType.MESSAGES_CONSUMED
    count: int


@dataclass(frozen=True)
class UnreadMessage:
    """A message that the job has not read."""

    seq: int
    by: str
    message: Document


encode_unread_message: Final = derive_encoder(UnreadMessage)


@dataclass(frozen=True)
class MessagesUnread(Payload):
    """The run ends, and its job has not read these messages.

    Stored just before the end, in the same transaction. `messages` has the first 20, up to 64 KiB.
    """

    type = EventType.MESSAGES_UNREAD
    count: int
    messages: list[Json[UnreadMessage]]


@dataclass(frozen=True)
class UnreadAnswer:
    """An answer that the job has not received."""

    call_id: str
    by: str | None
    answer: Document


encode_unread_answer: Final = derive_encoder(UnreadAnswer)


@dataclass(frozen=True)
class AnswersUnread(Payload):
    """The run ends, and its job has not received these answers to its questions.

    No execution asked the questions again. Stored just before the end, in the same transaction.
    `answers` has the first 20, up to 64 KiB.
    """

    type = EventType.ANSWERS_UNREAD
    count: int
    answers: list[Json[UnreadAnswer]]


@dataclass(frozen=True)
class MessagesCarried(Payload):
    """The run is replaced, and its unread messages go to the run that replaces it."""

    type = EventType.MESSAGES_CARRIED
    count: int
    to: RunId


@dataclass(frozen=True)
class MessageRead(Payload):
    """The job has read a message. Each message has its own event."""

    type = EventType.QUEUED_MESSAGE
    seq: int
    by: str
    message: Document


@dataclass(frozen=True)
class CancelDelivered(Payload):
    """The executor has received the cancel and has passed it to the job."""

    type = EventType.CANCEL_DELIVERED


@dataclass(frozen=True)
class InterruptAsked(Payload):
    """The job asks a question and waits `timeout_s` for the answer."""

    type = EventType.PERMISSION_REQUEST
    call_id: str
    question: Document
    schema_: Document | None
    timeout_s: float


@dataclass(frozen=True)
class InterruptClosed(Payload):
    """The question is closed, and the job continues with `answer`.

    `answered_at` is in microseconds since 1970.
    """

    type = EventType.PERMISSION_RESULT
    call_id: str
    outcome: InterruptOutcome
    by: str | None
    answered_at: int | None
    answer: Document


@dataclass(frozen=True)
class LaneChanged(Payload):
    """The limits of a lane were changed."""

    type = EventType.LANE_CHANGED
    may_free_capacity = True
    max_concurrent: int
    max_queued: int | None
    is_paused: bool
    by: str


@dataclass(frozen=True)
class KeyChanged(Payload):
    """A saved key was changed, or deleted if `revision` is null."""

    type = EventType.KEY_CHANGED
    revision: int | None
    by: str


@dataclass(frozen=True)
class NodeRan(Payload):
    """One attempt of a node of a flow has ended. `seq` is its number in the task."""

    type = EventType.NODE_RUN
    seq: int
    node: str
    branch: int | None
    attempt: int
    status: NodeRunStatus
    action: str
    error: str
    worker: str | None


@dataclass(frozen=True)
class FlowChanged(Payload):
    """A flow was created or has a new version."""

    type = EventType.FLOW_CHANGED
    flow: str
    version: int
    revision: int
    by: str


@dataclass(frozen=True)
class WorkerChanged(Payload):
    """A worker is new or alive again, or has a new address or new services."""

    type = EventType.WORKER_CHANGED
    id: str
    url: str
    services: tuple[str, ...]


@dataclass(frozen=True)
class ScheduleChanged(Payload):
    """A schedule is new, or its expression or time zone has changed."""

    type = EventType.SCHEDULE_CHANGED
    name: str
    expression: str
    time_zone: str


@dataclass(frozen=True)
class SchedulePaused(Payload):
    """A schedule was paused."""

    type = EventType.SCHEDULE_PAUSED
    name: str
    by: str


@dataclass(frozen=True)
class ScheduleResumed(Payload):
    """A schedule was resumed. Fire times during the pause are skipped."""

    type = EventType.SCHEDULE_RESUMED
    name: str
    by: str


@dataclass(frozen=True)
class ScheduleFired(Payload):
    """A schedule has started a run. `fire_at` is in microseconds since 1970."""

    type = EventType.SCHEDULE_FIRED
    name: str
    fire_at: int
    run_id: RunId


@dataclass(frozen=True)
class ScheduleDropped(Payload):
    """All fire times up to `fire_at` were missed, and start no run."""

    type = EventType.SCHEDULE_DROPPED
    name: str
    fire_at: int


PAYLOADS: Final[Mapping[EventType, type[Payload]]] = {
    payload.type: payload for payload in Payload.__subclasses__()
}
