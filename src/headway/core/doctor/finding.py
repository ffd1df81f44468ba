"""What the doctor finds."""

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    VIOLATION = "violation"
    """A promise is broken."""
    NOTE = "note"
    """It looks odd and is within the promises."""


@dataclass(frozen=True, slots=True)
class Finding:
    weight: Weight
    promise: str
    """Its id: `I4`."""
    place: str
    sentence: str


def violation(promise: str, place: str, sentence: str) -> Finding:
    return Finding(Weight.VIOLATION, promise, place, sentence)


def note(promise: str, place: str, sentence: str) -> Finding:
    return Finding(Weight.NOTE, promise, place, sentence)
