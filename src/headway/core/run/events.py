"""Events: everything that happened, in the order of one global stream."""

from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.run.status import RunStatus

TYPE_PATTERN: Final = r"^[^\s\d.+-]\S*$"
TYPE_LENGTH_MAX: Final = 64
"""The maximum length of a type. A type is one word that is not a number."""
JSON_LITERALS: Final = frozenset({"true", "false", "null"})
"""Names that are not allowed as a type, because a query would parse them as JSON values."""


class EventType(StrEnum):
    STATE_CHANGED = "run_state_changed"
    TAKEN_OVER = "run_taken_over"
    """The instance of the run was declared dead; the run is ready again."""
    RESUMED = "run_resumed"
    """A run that waited continues: it has a slot again."""
    WAITING = "run_waiting"
    """A run gave its slot back."""
    RETRIED = "run_retried"
    """An attempt failed and another will follow. The run stays the head of its key."""
    PARKED = "run_parked"
    WOKEN = "run_woken"
    PROGRESS = "run_progress"
    CHECKPOINT = "run_checkpoint"
    LOG = "run_log"
    MESSAGE_POSTED = "run_message_posted"
    MESSAGES_CONSUMED = "run_messages_consumed"
    MESSAGES_UNREAD = "run_messages_unread"
    """The run ends, and its job has not read these messages."""
    ANSWERS_UNREAD = "run_answers_unread"
    """The run ends, and its job has not received these answers to its questions."""
    MESSAGES_CARRIED = "run_messages_carried"
    """The run is replaced, and its unread messages go to the run that replaces it."""
    QUEUED_MESSAGE = "queued_message"
    """A message that the job has read, with its text and sender."""
    CANCEL_DELIVERED = "run_cancel_delivered"
    """The executor has received the cancel and has passed it to the job."""
    PERMISSION_REQUEST = "permission_request"
    PERMISSION_RESULT = "permission_result"
    LANE_CHANGED = "lane_changed"
    KEY_CHANGED = "key_changed"
    NODE_RUN = "node_run"
    """One attempt of a node of a flow has ended."""
    FLOW_CHANGED = "flow_changed"
    """A flow was created or has a new version."""
    WORKER_CHANGED = "worker_changed"
    """A worker has registered, or registered with another address or other services."""
    SCHEDULE_CHANGED = "schedule_changed"
    """A schedule is new, or has another expression or time zone."""
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_RESUMED = "schedule_resumed"
    SCHEDULE_FIRED = "schedule_fired"
    SCHEDULE_DROPPED = "schedule_dropped"
    """All fire times up to the one in the event were missed."""


class Event(NamedTuple):
    seq: int
    """1, 2, 3 … over all events, without gaps, in commit order (I13)."""
    run_id: RunId | None
    run_seq: int | None
    """1, 2, 3 … within the run."""
    key: Key | None
    lane: LaneName | None
    type: str
    payload: str
    at: Instant


def state_payload(before: RunStatus | None, after: RunStatus, details: str = "") -> str:
    """Return the payload of a status change. `details` are further members, encoded as JSON."""
    return f"{{{_encode_transition(before, after)}{details}}}"


@lru_cache
def _encode_transition(before: RunStatus | None, after: RunStatus) -> str:
    source = f'"{before}"' if before else "null"
    return f'"from":{source},"to":"{after}"'
