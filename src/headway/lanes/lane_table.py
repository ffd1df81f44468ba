"""All lanes as one state machine: events go in, the entries that may start come out.

A `Lane` exists only while it has waiting or active entries. The limits and the generation outlast
the lane and are stored in the table, so a million past sessions take no memory.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from headway.lanes.entry import Entry, LaneView, TaskId, WaitReport
from headway.lanes.lane import Lane
from headway.lanes.limits import LaneLimits
from headway.lanes.names import global_lane


class LaneTable:
    """All lanes by name. Methods that free slots return the entries that may now start.

    Callers must iterate over all of the returned entries. An entry is active from the moment it is
    yielded.
    """

    def __init__(self) -> None:
        self.generation = 0
        """The number of resets so far."""
        self._limits = LaneLimits()
        self._lanes: dict[str, Lane] = {}

    def enqueue(self, entry: Entry, now_s: float) -> bool:
        """Add an entry to its lane. Return True if it is active at once, or False if it waits."""
        lane = self._lanes.get(entry.lane)
        if lane is None:
            lane = self._lanes[entry.lane] = self._new_lane(entry.lane)
        return lane.enqueue(entry, now_s)

    def remove(self, entry: Entry, now_s: float) -> Iterable[Entry]:
        """Remove an entry, waiting or active, and yield the entries that may start in its place.

        An entry that a reset has already removed from its lane is also accepted.
        """
        lane = self._lanes.get(entry.lane)
        if lane is None:
            return ()
        if entry.generation is None:
            lane.withdraw(entry)
        else:
            lane.finish(entry.task_id, entry.generation)
        return () if self._remove_if_idle(lane) else lane.drain(now_s)

    def clear(self, name: str) -> list[Entry]:
        lane = self._lanes.get(global_lane(name))
        if lane is None:
            return []
        cleared = lane.clear()
        self._remove_if_idle(lane)
        return cleared

    def reset(self, now_s: float) -> Iterable[Entry]:
        self.generation += 1
        lanes = list(self._lanes.values())
        for lane in lanes:
            lane.reset(self.generation)
            self._remove_if_idle(lane)
        return self._drain(lanes, now_s)

    def set_limit(self, name: str, limit: int, now_s: float) -> Iterable[Entry]:
        """Set the limit of one lane. Raise InvalidLimits and change nothing if it is invalid."""
        self._limits.set_limit(name, limit)
        lane = self._lanes.get(global_lane(name))
        return self._apply_limits([] if lane is None else [lane], now_s)

    def set_limits(self, limits: Mapping[str, int], now_s: float) -> Iterable[Entry]:
        """Replace all limits. Raise InvalidLimits and change nothing if one is invalid."""
        self._limits.replace(limits)
        return self._apply_limits(list(self._lanes.values()), now_s)

    def take_wait_warning(self, entry: Entry, now_s: float) -> WaitReport | None:
        """Return a report of the entry's wait if a warning is due, or None.

        A warning is due once per entry, when the entry has waited for its `warn_after_s`.
        """
        if entry.has_warned or now_s - entry.enqueued_s < entry.warn_after_s:
            return None
        entry.has_warned = True
        return self._lanes[entry.lane].wait_report(entry, now_s)

    def is_active(self, entry: Entry) -> bool:
        lane = self._lanes.get(entry.lane)
        return lane is not None and lane.is_active(entry)

    def active_ids(self) -> set[TaskId]:
        return {task_id for lane in self._lanes.values() for task_id in lane.active_ids}

    def view(self, name: str) -> LaneView:
        """Return the current state of a lane. A lane that is not in use is empty."""
        name = global_lane(name)
        return (self._lanes.get(name) or self._new_lane(name)).view()

    def views(self) -> list[LaneView]:
        return [self.view(name) for name in sorted(self._limits.names | self._lanes.keys())]

    def _new_lane(self, name: str) -> Lane:
        return Lane(name, max_concurrent=self._limits.limit_for(name), generation=self.generation)

    def _apply_limits(self, lanes: list[Lane], now_s: float) -> Iterable[Entry]:
        for lane in lanes:
            lane.max_concurrent = self._limits.limit_for(lane.name)
        return self._drain(lanes, now_s)

    def _drain(self, lanes: list[Lane], now_s: float) -> Iterable[Entry]:
        return chain.from_iterable(lane.drain(now_s) for lane in lanes)

    def _remove_if_idle(self, lane: Lane) -> bool:
        if lane.is_idle:
            del self._lanes[lane.name]
        return lane.is_idle
