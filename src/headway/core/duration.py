"""Durations in seconds, as callers pass them."""

from enum import Enum
from typing import Final

from headway.core.errors import InvalidInput


class Unset(Enum):
    """The value of an argument that was not given, where None has a meaning of its own."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
TimeLimit = float | None | Unset
"""A limit in seconds. None means no limit, and UNSET means the default limit."""

SECONDS_MAX: Final = 100 * 366 * 24 * 60 * 60
"""The maximum duration: a century. Every type for instants can hold a time that far ahead."""


def resolve_limit(limit_s: TimeLimit, default_s: float | None) -> float | None:
    """Return `limit_s`, or `default_s` if `limit_s` is UNSET."""
    return default_s if limit_s is UNSET else limit_s


def check_limit(seconds: float | None, *, field: str) -> None:
    """Raise InvalidInput unless `seconds` is None or a positive number up to a century."""
    if seconds is None:
        return
    check_seconds(seconds, field=field)
    if seconds <= 0:
        raise InvalidInput(field, "must be more than 0 seconds; omit it for no limit")


def check_seconds(seconds: float, *, field: str) -> None:
    """Raise InvalidInput unless `seconds` is a number from 0 to a century."""
    value: object = seconds
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidInput(field, "must be a number of seconds")
    if not 0 <= seconds <= SECONDS_MAX:  # Written this way to refuse NaN.
        raise InvalidInput(field, f"must be 0 to {SECONDS_MAX:,} seconds")
