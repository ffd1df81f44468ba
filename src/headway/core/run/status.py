"""The statuses of a run, and their names for each audience."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"

    __hash__ = str.__hash__
    """The hash of an Enum is slow, and a status is a dict key on the hottest path."""


class StatusNames(NamedTuple):
    row: str
    """The name in the row of a key, for people (R1.6)."""
    task: str
    """The name in the task API of flows, for programs."""


# `row_status_name` handles a run that was canceled before it started: its key is `Idle` (R1.6).
STATUS_NAMES: Final[Mapping[RunStatus, StatusNames]] = {
    RunStatus.QUEUED: StatusNames("Queued", "pending"),
    RunStatus.RUNNING: StatusNames("Running", "running"),
    RunStatus.CANCELLING: StatusNames("Running", "canceling"),
    RunStatus.SUCCEEDED: StatusNames("Done", "completed"),
    RunStatus.FAILED: StatusNames("Failed", "failed"),
    RunStatus.CANCELED: StatusNames("Cancelled", "canceled"),
    RunStatus.TIMED_OUT: StatusNames("Failed", "failed"),
    RunStatus.REJECTED: StatusNames("Failed", "failed"),
}
IDLE_NAME: Final = "Idle"


def row_status_name(status: RunStatus, *, has_started: bool) -> str:
    """Return the state that a key's row shows if its last run has this status."""
    if status is RunStatus.REJECTED or (status is RunStatus.CANCELED and not has_started):
        return IDLE_NAME
    return STATUS_NAMES[status].row
