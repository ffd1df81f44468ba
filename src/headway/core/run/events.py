"""What happened, in the order of the one global stream."""

from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.run.status import RunStatus

TYPE_PATTERN: Final = r"^[^\s\d.+-]\S*$"
TYPE_LENGTH_MAX: Final = 64
"""A type is one word, and no number."""
JSON_LITERALS: Final = frozenset({"true", "false", "null"})
"""Nor one of these: in a query nobody could tell it from what it means elsewhere."""


class EventType(StrEnum):
    STATE_CHANGED = "run_state_changed"
    TAKEN_OVER = "run_taken_over"
    """The executor died or was declared dead; the run is ready again."""
    RESUMED = "run_resumed"
    """A run that had waited goes on: it has a slot again."""
    WAITING = "run_waiting"
    """A run gave its slot back."""
    RETRIED = "run_retried"
    """An attempt failed and another will follow; the run keeps its key."""
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
    """The run ends, and its job has not heard these answers to its questions."""
    MESSAGES_CARRIED = "run_messages_carried"
    """The run is replaced, and its unread messages go to the run that replaces it."""
    QUEUED_MESSAGE = "queued_message"
    """A message that the job has taken: the whole of it, and who sent it."""
    CANCEL_DELIVERED = "run_cancel_delivered"
    """Whoever executes the run knows that it is to end, and has told the job."""
    PERMISSION_REQUEST = "permission_request"
    PERMISSION_RESULT = "permission_result"
    LANE_CHANGED = "lane_changed"
    KEY_CHANGED = "key_changed"
    NODE_RUN = "node_run"
    """A try of a node of a flow is over."""
    FLOW_CHANGED = "flow_changed"
    """It is new, or has another version."""
    WORKER_CHANGED = "worker_changed"
    """It has registered."""
    SCHEDULE_CHANGED = "schedule_changed"
    """It is new, or has another expression or time zone."""
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_RESUMED = "schedule_resumed"
    SCHEDULE_FIRED = "schedule_fired"
    SCHEDULE_DROPPED = "schedule_dropped"
    """Slots were missed, up to the one it names."""


class Event(NamedTuple):
    seq: int
    """1, 2, 3 … over everything, without gaps, in commit order (I13)."""
    run_id: RunId | None
    run_seq: int | None
    """1, 2, 3 … within its run."""
    key: Key | None
    lane: LaneName | None
    type: str
    payload: str
    at: Instant


def state_payload(before: RunStatus | None, after: RunStatus, details: str = "") -> str:
    """The document of a state change; `details` is more of its members, already JSON."""
    return f"{{{_encode_transition(before, after)}{details}}}"


@lru_cache
def _encode_transition(before: RunStatus | None, after: RunStatus) -> str:
    source = f'"{before}"' if before else "null"
    return f'"from":{source},"to":"{after}"'
