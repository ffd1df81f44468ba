"""What the doctor finds."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    VIOLATION = "violation"
    """A promise is broken."""
    NOTE = "note"
    """It looks odd and is within the promises."""


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    promise: str
    """Its id: `I4`."""
    subject: str
    sentence: str


def violation(promise: str, place: str, sentence: str) -> Finding:
    return Finding(Severity.VIOLATION, promise, place, sentence)


def note(promise: str, place: str, sentence: str) -> Finding:
    return Finding(Severity.NOTE, promise, place, sentence)
