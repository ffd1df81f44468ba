"""When a run can be spoken to: its window, inside the time in which it is held."""

from enum import IntEnum, StrEnum


class Window(IntEnum):
    """What a run has said about itself, since its claim. As a number it is in the run's row."""

    NONE = 0
    """Nothing: messages wait in its inbox until it looks."""
    STREAMING = 1
    """Its loop takes messages between two steps."""
    COMPACTING = 2
    """Its loop goes on, but takes no messages until it streams again."""
    CLOSED = 3
    """Its loop is over, and it comes to its end: neither a message nor a cancel is taken."""


class Refusal(StrEnum):
    """Why a run takes no message now."""

    NO_ACTIVE_RUN = "no_active_run"
    NOT_STREAMING = "not_streaming"
    COMPACTING = "compacting"
    FULL = "full"
    """It has too many that it has not read."""


def refusal_of(window: int, *, is_steering: bool) -> Refusal | None:
    """None: a message is taken. To steer is to speak to a loop that listens now."""
    match window:
        case Window.STREAMING:
            return None
        case Window.COMPACTING:
            return Refusal.COMPACTING
        case Window.NONE if not is_steering:
            return None
        case _:
            return Refusal.NOT_STREAMING
