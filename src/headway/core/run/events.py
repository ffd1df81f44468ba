"""Events: everything that happened, in the order of one global stream."""

from enum import StrEnum
from typing import Final, NamedTuple

from headway.core.ids import Instant, Key, LaneName, RunId

TYPE_PATTERN: Final = r"^[^\s\d.+-]\S*$"
TYPE_LENGTH_MAX: Final = 64
"""The maximum length of an event type. A type is one word that is not a number."""
JSON_LITERALS: Final = frozenset({"true", "false", "null"})
"""Words that cannot be event types, because a query would parse them as JSON values."""


class EventType(StrEnum):
    """The types of the events that headway writes. `core/event_payloads.py` describes each."""

    STATE_CHANGED = "run_state_changed"
    TAKEN_OVER = "run_taken_over"
    RESUMED = "run_resumed"
    WAITING = "run_waiting"
    RETRIED = "run_retried"
    PARKED = "run_parked"
    WOKEN = "run_woken"
    PROGRESS = "run_progress"
    CHECKPOINT = "run_checkpoint"
    LOG = "run_log"
    MESSAGE_POSTED = "run_message_posted"
    MESSAGES_CONSUMED = "run_messages_consumed"
    MESSAGES_UNREAD = "run_messages_unread"
    ANSWERS_UNREAD = "run_answers_unread"
    MESSAGES_CARRIED = "run_messages_carried"
    QUEUED_MESSAGE = "queued_message"
    CANCEL_DELIVERED = "run_cancel_delivered"
    PERMISSION_REQUEST = "permission_request"
    PERMISSION_RESULT = "permission_result"
    LANE_CHANGED = "lane_changed"
    KEY_CHANGED = "key_changed"
    NODE_RUN = "node_run"
    FLOW_CHANGED = "flow_changed"
    WORKER_CHANGED = "worker_changed"
    SCHEDULE_CHANGED = "schedule_changed"
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_RESUMED = "schedule_resumed"
    SCHEDULE_FIRED = "schedule_fired"
    SCHEDULE_DROPPED = "schedule_dropped"


class Event(NamedTuple):
    seq: int
    """The number of the event: 1, 2, 3 … over all events, without gaps, in commit order (I13)."""
    run_id: RunId | None
    run_seq: int | None
    """The number of the event within its run: 1, 2, 3 …"""
    key: Key | None
    lane: LaneName | None
    type: str
    payload: str
    """JSON text: a `Payload` of the type, or any value if a job has emitted the event."""
    at: Instant
