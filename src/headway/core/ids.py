"""The names of things, as types, so that a key is never passed where a lane was meant."""

from typing import Final, NewType

RunId = NewType("RunId", str)
Key = NewType("Key", str)
LaneName = NewType("LaneName", str)
InstanceId = NewType("InstanceId", str)
# Microseconds since 1970-01-01 UTC: the same integer in the core, in every database and in tests,
# so that no dialect's idea of a date comes between. The faces turn it into RFC 3339.
Instant = NewType("Instant", int)

MAIN_LANE: Final = LaneName("main")
CRON_LANE: Final = LaneName("cron")
"""Where the runs of schedules go."""
FLOW_LANE: Final = LaneName("flow")
"""Where the tasks of flows go: they mostly wait for others."""
SECOND_US: Final = 1_000_000


def add_seconds(instant: Instant, *, seconds: float) -> Instant:
    """The instant `seconds` after `instant`."""
    return Instant(instant + round(seconds * SECOND_US))
