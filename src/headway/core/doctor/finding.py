"""The findings of the doctor."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    VIOLATION = "violation"
    """A promise is broken."""
    NOTE = "note"
    """The state is unusual, but breaks no promise."""


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    promise: str
    """The id of the promise, such as `I4`."""
    subject: str
    sentence: str


def violation(promise: str, subject: str, sentence: str) -> Finding:
    return Finding(Severity.VIOLATION, promise, subject, sentence)


def note(promise: str, subject: str, sentence: str) -> Finding:
    return Finding(Severity.NOTE, promise, subject, sentence)
