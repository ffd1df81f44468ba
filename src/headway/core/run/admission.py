"""What happens to a submission whose key is busy."""

from enum import StrEnum

from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.window import Window


class OnConflict(StrEnum):
    REJECT = "reject"
    ENQUEUE = "enqueue"
    REPLACE = "replace"
    STEER = "steer"
    JOIN = "join"


class Admission(StrEnum):
    ENTER = "enter"
    """Become the head of the key."""
    QUEUE = "queue"
    """Join the queue of the key."""
    REFUSE = "refuse"
    SUPERSEDE = "supersede"
    """Cancel all active runs of the key, and come after them."""
    INJECT = "inject"
    """No new run: its parameters become a message to the running one."""
    SHARE = "share"
    """No new run: the active one is given back."""


def decide_admission(on_conflict: OnConflict, head: Run | None) -> Admission:
    """The five policies, in one place (R1.5)."""
    if head is None:
        return Admission.ENTER
    match on_conflict:
        case OnConflict.REJECT:
            return Admission.REFUSE
        case OnConflict.ENQUEUE:
            return Admission.QUEUE
        case OnConflict.REPLACE:
            return Admission.SUPERSEDE
        case OnConflict.JOIN:
            return Admission.SHARE
        case OnConflict.STEER:
            takes_messages = head.status is RunStatus.RUNNING and head.window == Window.STREAMING
            return Admission.INJECT if takes_messages else Admission.QUEUE
