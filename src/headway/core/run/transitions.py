"""The one table of status changes. SQL guards, documentation and tests are derived from it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from headway.core.run.status import RunStatus


class Trigger(StrEnum):
    CLAIM = "claim"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    CONFIRM_CANCEL = "confirm_cancel"
    FORCE_CANCEL = "force_cancel"
    EXPIRE = "expire"
    ABANDON = "abandon"

    __hash__ = str.__hash__  # Faster, as in RunStatus.


TRANSITIONS: Final[Mapping[Trigger, Mapping[RunStatus, RunStatus]]] = {
    Trigger.CLAIM: {
        RunStatus.QUEUED: RunStatus.RUNNING,
        RunStatus.RUNNING: RunStatus.RUNNING,  # Woken, retried, or taken over from a dead instance.
    },
    Trigger.COMPLETE: {
        RunStatus.RUNNING: RunStatus.SUCCEEDED,
        RunStatus.CANCELLING: RunStatus.SUCCEEDED,  # The job finished before it got the cancel.
    },
    Trigger.FAIL: {
        RunStatus.RUNNING: RunStatus.FAILED,
        RunStatus.CANCELLING: RunStatus.FAILED,
    },
    Trigger.CANCEL: {
        RunStatus.QUEUED: RunStatus.CANCELED,
        RunStatus.RUNNING: RunStatus.CANCELLING,
    },
    Trigger.CONFIRM_CANCEL: {RunStatus.CANCELLING: RunStatus.CANCELED},
    # After the deadline of the cancel, or at once if no process holds the run.
    Trigger.FORCE_CANCEL: {RunStatus.CANCELLING: RunStatus.CANCELED},
    Trigger.EXPIRE: {
        RunStatus.QUEUED: RunStatus.TIMED_OUT,
        RunStatus.RUNNING: RunStatus.TIMED_OUT,
    },
    # Too many executions ended without progress, or the job has `recovery="fail"`.
    Trigger.ABANDON: {RunStatus.RUNNING: RunStatus.FAILED},
}
TERMINAL: Final = frozenset(RunStatus) - {s for edges in TRANSITIONS.values() for s in edges}
ACTIVE: Final = frozenset(RunStatus) - TERMINAL
