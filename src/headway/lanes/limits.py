"""Limits on how many tasks a lane runs at once.

A set of limits applies as a whole or not at all.
"""

from collections.abc import Mapping
from typing import Final

from headway.core.ids import FLOW_LANE
from headway.core.lane_row import DEFAULT_LIMITS as CORE_LIMITS
from headway.core.lane_row import FALLBACK_LIMIT
from headway.lanes.errors import InvalidLimits
from headway.lanes.names import global_lane

DEFAULT_LIMITS: Final[Mapping[str, int]] = {
    str(name): limit for name, limit in CORE_LIMITS.items() if name != FLOW_LANE
}
LIMIT_MAX: Final = 1_000_000


class LaneLimits:
    """The current limits. A lane that is not stored here has `FALLBACK_LIMIT`."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = dict(DEFAULT_LIMITS)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._limits)

    def limit_for(self, lane: str) -> int:
        return self._limits.get(lane, FALLBACK_LIMIT)

    def set_limit(self, lane: str, limit: int) -> None:
        """Set the limit of one lane. Raise InvalidLimits if it is invalid."""
        name, checked = next(iter(validate_limits({lane: limit}).items()))
        if checked == FALLBACK_LIMIT and name not in DEFAULT_LIMITS:
            self._limits.pop(name, None)  # No entry means the same. Stored names would accumulate.
        else:
            self._limits[name] = checked

    def replace(self, limits: Mapping[str, int]) -> None:
        """Replace all limits. Lanes that `limits` does not name get their default limits.

        Raise InvalidLimits and change nothing if a limit is invalid.
        """
        self._limits = {**DEFAULT_LIMITS, **validate_limits(limits)}


def validate_limits(limits: Mapping[str, int]) -> dict[str, int]:
    """Return the limits with trimmed names. Raise InvalidLimits with a list of all problems."""
    problems: list[str] = []
    checked: dict[str, int] = {}
    for untrimmed_name, limit in limits.items():
        name = global_lane(untrimmed_name)
        if name in checked:
            problems.append(f"lane {name!r} is named twice")
        # bool is a subclass of int, but True as a limit is a mistake of the caller.
        if isinstance(limit, bool) or not isinstance(limit, int):
            problems.append(f"lane {name!r}: {limit!r} is not a whole number")
        elif not 0 <= limit <= LIMIT_MAX:
            problems.append(f"lane {name!r}: the limit must be 0 to {LIMIT_MAX:,}, not {limit}")
        checked[name] = limit
    if problems:
        raise InvalidLimits(problems)
    return checked
