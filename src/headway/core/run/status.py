"""The states of a run, and the words in which each audience knows them."""

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
    """An enumeration's own is slow, and this is a key in every table of the hottest path."""


class StatusNames(NamedTuple):
    row: str
    """What a person sees in the row of a key (R1.6)."""
    task: str
    """What programs that speak the flow centre's dialect see."""


# A run that was canceled before it started leaves its key `Idle` (R1.6); `row_word` knows.
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
    """The word for the row of a key whose last run is this one."""
    if status is RunStatus.REJECTED or (status is RunStatus.CANCELED and not has_started):
        return IDLE_NAME
    return STATUS_NAMES[status].row
