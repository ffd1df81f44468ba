"""Decide what happens to a submission whose key is busy."""

from enum import StrEnum
from typing import Final

from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.window import Window


class OnConflict(StrEnum):
    REJECT = "reject"
    ENQUEUE = "enqueue"
    REPLACE = "replace"
    STEER = "steer"
    JOIN = "join"


TASK_POLICIES: Final = tuple(policy for policy in OnConflict if policy is not OnConflict.STEER)
"""The conflict policies that flow tasks may have: all except STEER.

The parameters of a task are not a message for another run.
"""


class Admission(StrEnum):
    ENTER = "enter"
    """Add the run as the head of the key."""
    QUEUE = "queue"
    """Add the run behind the other runs of the key."""
    REFUSE = "refuse"
    SUPERSEDE = "supersede"
    """Cancel all active runs of the key, and add the run behind them."""
    INJECT = "inject"
    """Add no run: send the parameters as a message to the running run of the key."""
    SHARE = "share"
    """Add no run: return the active run of the key."""


def decide_admission(on_conflict: OnConflict, head: Run | None) -> Admission:
    """Return what to do with a submission, given the head of its key (R1.5)."""
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
