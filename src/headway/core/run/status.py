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


class Words(NamedTuple):
    row: str
    """What a person sees in the row of a key (R1.6)."""
    task: str
    """What programs that speak the flow centre's dialect see."""


# A run that was canceled before it started leaves its key `Idle` (R1.6); `row_word` knows.
VOCABULARY: Final[Mapping[RunStatus, Words]] = {
    RunStatus.QUEUED: Words("Queued", "pending"),
    RunStatus.RUNNING: Words("Running", "running"),
    RunStatus.CANCELLING: Words("Running", "canceling"),
    RunStatus.SUCCEEDED: Words("Done", "completed"),
    RunStatus.FAILED: Words("Failed", "failed"),
    RunStatus.CANCELED: Words("Cancelled", "canceled"),
    RunStatus.TIMED_OUT: Words("Failed", "failed"),
    RunStatus.REJECTED: Words("Failed", "failed"),
}
IDLE_WORD: Final = "Idle"


def row_word(status: RunStatus, *, has_started: bool) -> str:
    """The word for the row of a key whose last run is this one."""
    if status is RunStatus.REJECTED or (status is RunStatus.CANCELED and not has_started):
        return IDLE_WORD
    return VOCABULARY[status].row
