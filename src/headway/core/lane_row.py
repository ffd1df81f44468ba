"""Lanes: named queues, each with a limit on concurrent runs."""

from typing import Final, NamedTuple

from headway.core.ids import CRON_LANE, FLOW_LANE, MAIN_LANE, Flag, LaneName

DEFAULT_LIMITS: Final = {MAIN_LANE: 3, CRON_LANE: 1, LaneName("subagent"): 1, FLOW_LANE: 64}
FALLBACK_LIMIT: Final = 1


class LaneRow(NamedTuple):
    name: LaneName
    max_concurrent: int
    """How many runs of the lane may hold a slot at once. With 0, no runs start."""
    max_queued: int | None = None
    is_paused: Flag = 0
    revision: int = 0
    is_set_by_hand: Flag = 0
    """1 if a person has set `max_concurrent`. A limit that a job proposes is then ignored."""
    configured_limit: int | None = None
    """The last configured limit, or None if the lane was never configured."""

    @property
    def capacity(self) -> int:
        return 0 if self.is_paused else self.max_concurrent


def default_lane(name: LaneName) -> LaneRow:
    """Return the lane of this name with its default limit."""
    return LaneRow(name, DEFAULT_LIMITS.get(name, FALLBACK_LIMIT))
