"""The time limits of one process: their defaults, and how they must relate to each other."""

from dataclasses import dataclass
from typing import Final

from headway.core.duration import SECONDS_MAX
from headway.core.errors import InvalidInput

EXECUTION_TIMEOUT_S: Final = 1800.0
PERMISSION_TIMEOUT_S: Final = 300.0
LEASE_TTL_S: Final = 90.0
COMPACTION_TIMEOUT_S: Final = 120.0
SSE_PING_INTERVAL_S: Final = 15.0

LEASE_TTL_S_MIN: Final = 0.5
"""The minimum of `lease_ttl_s`.

A shorter lease would expire while its renewal waits for a busy database.
"""
LEASE_TTL_S_MAX: Final = 86_400.0
"""The maximum of `lease_ttl_s`.

The runs of a crashed host wait until its lease expires, so more than a day is probably a typo.
"""
SSE_PING_INTERVAL_S_MAX: Final = 30.0
"""The maximum of `sse_ping_interval_s`.

Clients such as the page and `headway run watch` close a stream after 45 s of silence.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The time limits of one process. Raise InvalidInput if one of them is invalid.

    The fields have the names of the settings, so that an error names the setting to change.
    """

    execution_timeout_s: float = EXECUTION_TIMEOUT_S
    """How long a run may take, if its job has no `timeout_s`."""
    permission_timeout_s: float = PERMISSION_TIMEOUT_S
    """How long a question to a person stays open, if the job sets no time."""
    lease_ttl_s: float = LEASE_TTL_S
    """How long an instance counts as alive after it last renewed its lease."""
    compaction_timeout_s: float = COMPACTION_TIMEOUT_S
    """How long one compaction may take, if the job sets no time."""
    sse_ping_interval_s: float = SSE_PING_INTERVAL_S
    """How long an event stream may be silent before the server sends a ping."""

    def __post_init__(self) -> None:
        self._check("execution_timeout_s", maximum=SECONDS_MAX)
        self._check("permission_timeout_s", maximum=SECONDS_MAX)
        self._check("lease_ttl_s", maximum=LEASE_TTL_S_MAX, minimum=LEASE_TTL_S_MIN)
        self._check("compaction_timeout_s", maximum=SECONDS_MAX)
        self._check("sse_ping_interval_s", maximum=SSE_PING_INTERVAL_S_MAX)
        self._check_shorter("permission_timeout_s", "no run would be left to receive the answer")
        self._check_shorter("compaction_timeout_s", "the run would end before its compaction")

    def _check(self, name: str, *, maximum: float, minimum: float = 0.0) -> None:
        seconds: object = getattr(self, name)
        if not isinstance(seconds, int | float) or isinstance(seconds, bool):
            raise InvalidInput(name, "must be a number of seconds")
        if minimum and not minimum <= seconds:  # Written this way to refuse NaN.
            raise InvalidInput(name, f"must be at least {minimum:g} s, and is {seconds:g} s")
        if not seconds > 0:
            raise InvalidInput(name, f"must be more than 0 s, and is {seconds:g} s")
        if not seconds <= maximum:
            raise InvalidInput(name, f"must be at most {maximum:,.0f} s, and is {seconds:g} s")

    def _check_shorter(self, name: str, consequence: str) -> None:
        seconds, limit_s = getattr(self, name), self.execution_timeout_s
        if seconds >= limit_s:
            raise InvalidInput(
                name,
                f"must be less than execution_timeout_s, or {consequence}; it is {seconds:g} s and"
                f" execution_timeout_s is {limit_s:g} s: lower the first or raise the second",
            )


DEFAULT_TIMEOUTS: Final = Timeouts()
