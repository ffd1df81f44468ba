"""The window in which a run accepts messages. The run's execution opens and closes it."""

from enum import IntEnum, StrEnum


class Window(IntEnum):
    """The state that decides whether an execution accepts messages. Stored as a number.

    Each claim begins with NONE, so no window outlives the execution that opened it.
    """

    NONE = 0
    """The execution has not listened yet."""
    STREAMING = 1
    """The execution listens, and reads its messages between two steps."""
    COMPACTING = 2
    """The execution accepts no messages until its compaction has ended."""
    CLOSED = 3
    """The message loop has ended: neither a message nor a cancel is accepted any more."""


class Delivery(StrEnum):
    """When a message is delivered to its run."""

    NOW = "now"
    """Accept the message only while the run listens."""
    WHEN_LISTENING = "when_listening"
    """Store the message in the inbox until the run listens."""


class Refusal(StrEnum):
    """Why a run refuses a message."""

    NO_ACTIVE_RUN = "no_active_run"
    """The run has ended, or is about to end."""
    NOT_STARTED = "not_started"
    NOT_STREAMING = "not_streaming"
    """The run is running but does not listen."""
    COMPACTING = "compacting"
    FLOW_TASK = "flow_task"
    """The run is a flow task, which accepts signals instead of messages."""
    FULL = "full"
    """The run has too many unread messages."""


def message_refusal(window: int, delivery: Delivery) -> Refusal | None:
    """Return why a run in this window refuses a message, or None if the run accepts it."""
    if window == Window.CLOSED:  # The run never listens again, so do not store the message.
        return Refusal.NOT_STREAMING
    if window == Window.STREAMING or delivery is Delivery.WHEN_LISTENING:
        return None
    return Refusal.COMPACTING if window == Window.COMPACTING else Refusal.NOT_STREAMING
