"""Lengths of time, as callers give them: in seconds."""

from enum import Enum
from typing import Final

from headway.core.errors import InvalidInput


class Unset(Enum):
    """The value of an argument that was not given, where None has a meaning of its own."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
TimeLimit = float | None | Unset
"""A limit in seconds. None means no limit, UNSET the default limit."""

SECONDS_MAX: Final = 100 * 366 * 24 * 60 * 60
"""A century: what is added to the present still fits everywhere."""


def resolve_limit(given: TimeLimit, usual_s: float | None) -> float | None:
    """Return the given limit, or `usual_s` if it is UNSET."""
    return usual_s if given is UNSET else given


def check_limit(seconds: float | None, *, field: str) -> None:
    """InvalidInput unless `seconds` is a time in which something can be done, or None."""
    if seconds is None:
        return
    check_seconds(seconds, field=field)
    if seconds <= 0:
        raise InvalidInput(field, "must be more than 0 seconds; leave it out for no limit")


def check_seconds(seconds: float, *, field: str) -> None:
    """InvalidInput unless `seconds` is a number from 0 to a century."""
    given: object = seconds
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise InvalidInput(field, "must be a number of seconds")
    if not 0 <= seconds <= SECONDS_MAX:  # NaN is neither.
        raise InvalidInput(field, f"must be 0 to {SECONDS_MAX:,} seconds")
