"""The lane table behaves as a naive model of it, after any operations.

The model has one list of waiting ids for each lane, scans all of it for every query, and never
removes a lane. Proves R3.1, R3.7, R3.8, R3.10 and R3.12.
"""

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headway.lanes.entry import Entry, Priority
from headway.lanes.lane_table import LaneTable
from headway.lanes.limits import DEFAULT_LIMITS
from headway.lanes.priority_queue import PASSES_PER_LEVEL
from tests.lanes.scenes import an_entry

LANES = ("main", "cron", "session:ann", "session:bob")
lane_names = st.sampled_from(LANES)


class ModelLane:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.waiting: list[Entry] = []
        self.active: list[Entry] = []
        self.passes = dict.fromkeys(Priority, 0)

    def started(self) -> list[Entry]:
        started = []
        while self.waiting and len(self.active) < self.limit:
            heads = [entry for entry in self.waiting if self.is_head(entry)]
            chosen = min(heads, key=lambda head: (self.level(head), head.task_id))
            self.waiting.remove(chosen)
            for priority in Priority:
                self.passes[priority] += priority > chosen.priority
            self.passes[chosen.priority] = 0
            self.forget_passes()
            self.active.append(chosen)
            started.append(chosen)
        return started

    def is_head(self, entry: Entry) -> bool:
        return entry is next(e for e in self.waiting if e.priority == entry.priority)

    def level(self, entry: Entry) -> int:
        return max(0, entry.priority - self.passes[entry.priority] // PASSES_PER_LEVEL)

    def forget_passes(self) -> None:
        for priority in Priority:
            if all(entry.priority != priority for entry in self.waiting):
                self.passes[priority] = 0


class LaneTableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = LaneTable()
        self.model = {name: ModelLane(DEFAULT_LIMITS.get(name, 1)) for name in LANES}
        self.entries: list[Entry] = []
        self.left: set[int] = set()
        self.started: list[Entry] = []

    @rule(lane=lane_names, priority=st.sampled_from(Priority), count=st.integers(1, 4))
    def enqueue(self, lane: str, priority: Priority, count: int) -> None:
        for _ in range(count):
            entry = an_entry(len(self.entries), lane=lane, priority=priority)
            self.entries.append(entry)
            self.model[lane].waiting.append(entry)
            is_active = self.table.enqueue(entry, 0.0)
            self.compare([entry] if is_active else [], self.model[lane].started())

    @precondition(lambda self: len(self.left) < len(self.entries))
    @rule(data=st.data())
    def leave_from_any_state(self, data: st.DataObject) -> None:
        remaining = [entry for entry in self.entries if entry.task_id not in self.left]
        entry = data.draw(st.sampled_from(remaining))
        self.left.add(entry.task_id)
        lane = self.model[entry.lane]
        lane.active = [other for other in lane.active if other is not entry]
        lane.waiting = [other for other in lane.waiting if other is not entry]
        lane.forget_passes()
        self.compare(self.table.remove(entry, 0.0), lane.started())

    @rule(lane=lane_names, limit=st.integers(0, 4))
    def set_limit(self, lane: str, limit: int) -> None:
        self.model[lane].limit = limit
        self.compare(self.table.set_limit(lane, limit, 0.0), self.model[lane].started())

    @rule(limits=st.dictionaries(lane_names, st.integers(0, 4)))
    def set_limits(self, limits: dict[str, int]) -> None:
        for name, lane in self.model.items():
            lane.limit = limits.get(name, DEFAULT_LIMITS.get(name, 1))
        self.compare(self.table.set_limits(limits, 0.0), self.all_started())

    @rule(lane=lane_names)
    def clear(self, lane: str) -> None:
        expected, self.model[lane].waiting = self.model[lane].waiting, []
        self.model[lane].forget_passes()
        assert self.table.clear(lane) == expected

    @rule()
    def reset(self) -> None:
        for lane in self.model.values():
            lane.active = []
        self.compare(self.table.reset(0.0), self.all_started())

    def all_started(self) -> list[Entry]:
        return [entry for lane in self.model.values() for entry in lane.started()]

    def compare(self, actual: Iterable[Entry], expected: list[Entry]) -> None:
        by_lane: dict[str, list[Entry]] = defaultdict(list)
        for entry in actual:
            by_lane[entry.lane].append(entry)
            assert entry.generation == self.table.generation
        for name in LANES:  # The order of the lanes among each other does not matter.
            assert by_lane[name] == [entry for entry in expected if entry.lane == name]

    @invariant()
    def every_lane_equals_the_model(self) -> None:
        for name, lane in self.model.items():
            view = self.table.view(name)
            assert view.waiting == tuple(entry.task_id for entry in lane.waiting)
            assert set(view.active) == {entry.task_id for entry in lane.active}
            assert view.max_concurrent == lane.limit
            assert view.generation == self.table.generation

    @invariant()
    def only_lanes_in_use_exist(self) -> None:
        used = {name for name, lane in self.model.items() if lane.waiting or lane.active}
        assert set(self.table._lanes) == used


TestLaneTable = LaneTableMachine.TestCase
TestLaneTable.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True, database=None
)
