"""Identifiers as types, so that the type checker refuses a key where a lane is expected."""

from typing import Final, NewType

RunId = NewType("RunId", str)
Key = NewType("Key", str)
LaneName = NewType("LaneName", str)
InstanceId = NewType("InstanceId", str)
Flag = int
"""A bool as the tables store it: 0 or 1."""
# Microseconds since 1970-01-01 UTC. The core, every database and tests use the same integer, so
# that no database's date type is involved. The HTTP API and the CLI convert it to RFC 3339.
Instant = NewType("Instant", int)

MAIN_LANE: Final = LaneName("main")
CRON_LANE: Final = LaneName("cron")
"""The lane of scheduled runs."""
FLOW_LANE: Final = LaneName("flow")
"""The lane of flow tasks. Its limit is high, because tasks mostly wait."""
SECOND_US: Final = 1_000_000


def add_seconds(instant: Instant, *, seconds: float) -> Instant:
    """Return the instant `seconds` after `instant`."""
    return Instant(instant + round(seconds * SECOND_US))
