"""Replay the slots of every lane from the event stream: no commit may exceed a limit (I5).

The rows of runs show only which runs hold a slot now. A limit that was exceeded for a moment is
visible only in the stream: each event that gives or returns a slot is in the same transaction as
the change.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from headway.core.doctor.finding import Finding, violation
from headway.core.doctor.history import parse_states
from headway.core.ids import LaneName, RunId
from headway.core.lane_row import LaneRow, default_lane
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

SLOT_RETURN_TYPES: Final = frozenset(
    {EventType.TAKEN_OVER, EventType.WAITING, EventType.PARKED, EventType.RETRIED}
)
SLOT_EVENT_TYPES: Final = frozenset(
    {EventType.STATE_CHANGED, EventType.RESUMED, EventType.LANE_CHANGED, *SLOT_RETURN_TYPES}
)
SLOT_PAYLOAD_PREFIX_LENGTH: Final = 256
"""How many characters of a payload are read.

They contain both statuses of a status change, or the limit of a lane.
"""
_LIMIT: Final = re.compile(r'"max_concurrent":(\d+)')
_IS_PAUSED: Final = '"is_paused":true'


class SlotEvent(NamedTuple):
    """An event whose type is in `SLOT_EVENT_TYPES`."""

    seq: int
    run_id: RunId | None
    lane: LaneName | None
    type: str
    payload_prefix: str


class SlotReplay:
    """Count the held slots of each lane while the events are replayed in order.

    If the stream was pruned, runs that took their slot before its first event are not counted, and
    a lane's limit is unknown until an event sets it. The replay may then miss a violation, but it
    never reports a false violation.
    """

    def __init__(self, lanes: Iterable[LaneRow], *, is_unpruned: bool) -> None:
        """Start a replay. `lanes` are the current lanes.

        `is_unpruned` is True if no event was pruned.
        """
        self._is_unpruned = is_unpruned
        self._current: Mapping[LaneName, LaneRow] = {lane.name: lane for lane in lanes}
        self._capacities: dict[LaneName, int | None] = {}
        self._held: defaultdict[LaneName, set[RunId]] = defaultdict(set)

    def reset(self) -> None:
        """Start the counts again after a gap: events were pruned while the stream was read."""
        self._is_unpruned = False
        self._capacities.clear()
        self._held.clear()

    def apply(self, event: SlotEvent) -> Iterator[Finding]:
        if event.lane is None:
            return
        if event.type == EventType.LANE_CHANGED:
            self._capacities[event.lane] = _parse_capacity(event.payload_prefix)
            return
        if event.run_id is None:
            return
        if event.type in SLOT_RETURN_TYPES:
            self._held[event.lane].discard(event.run_id)
            return
        if event.type == EventType.STATE_CHANGED:
            states = parse_states(event.payload_prefix)
            if states is None:
                return  # `check_history` reports this event.
            if states[1] in TERMINAL:
                self._held[event.lane].discard(event.run_id)
            if states[1] != RunStatus.RUNNING:
                return
        yield from self._hold(event, event.run_id, event.lane)

    def _hold(self, event: SlotEvent, run_id: RunId, lane: LaneName) -> Iterator[Finding]:
        held = self._held[lane]
        held.add(run_id)
        capacity = self._capacity_of(lane)
        if capacity is not None and len(held) > capacity:
            subject = f"lane {lane!r}, event {event.seq}"
            sentence = f"{len(held)} slots were held after it, and the limit was {capacity}"
            yield violation("I5", subject, sentence)

    def _capacity_of(self, lane: LaneName) -> int | None:
        """Return the capacity of a lane at this point of the replay, or None if it is not known."""
        if lane not in self._capacities:
            current = self._current.get(lane)
            if current is not None and current.revision == 0:
                self._capacities[lane] = current.capacity
            else:
                self._capacities[lane] = default_lane(lane).capacity if self._is_unpruned else None
        return self._capacities[lane]


def _parse_capacity(payload_prefix: str) -> int | None:
    limit = _LIMIT.search(payload_prefix)
    if limit is None:
        return None
    return 0 if _IS_PAUSED in payload_prefix else int(limit[1])
