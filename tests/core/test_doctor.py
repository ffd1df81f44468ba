"""The doctor on values: above all on those that a database cannot be made to hold."""

from typing import Any

import pytest

from headway.core.doctor.finding import Weight
from headway.core.doctor.history import Change, Numbers, check_history
from headway.core.doctor.run_page import Head, RunPage, check_page
from headway.core.doctor.slots import SlotEvent, SlotReplay
from headway.core.doctor.stream import EventPage, LaneUse, check_events, check_lane
from headway.core.ids import LaneName, RunId
from headway.core.lane_row import Lane
from headway.core.run.events import EventType
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.testing import a_run
from headway.testing.fake_clock import NOON


def a_page(*runs: Run, **seen: Any) -> RunPage:
    """Queued runs, each with the one event that it should have."""
    return RunPage(
        runs=runs,
        unreadable={},
        last_seq=runs[-1].seq,
        pruned_seq=0,
        heads=seen.get("heads", {}),
        first_waiting={},
        predecessors={},
        numbers={run.id: Numbers(1, 1, 1) for run in runs},
        changes={run.id: [Change(run.seq, 1, '{"from":null,"to":"queued"}')] for run in runs},
        unread_counts={},
        instances=(),
        forgotten_by={},
    )


def test_i4_a_second_head_of_a_key_is_named_once() -> None:
    first, second = a_run(seq=1), a_run(seq=2, ready_seq=2)
    heads = {
        run.key: [Head(one.key, one.seq, one.id, None) for one in (second, first)]
        for run in (first,)
    }
    (found,) = check_page(a_page(first, second, heads=heads), now=NOON, patience_s=16)
    assert (found.weight, found.promise) == (Weight.VIOLATION, "I4")
    assert (found.place, found.sentence) == (f"run {second.id}", "key 'ann' has more than one head")


ENTERED = Change(1, 1, '{"from":null,"to":"queued"}')
STARTED = Change(2, 2, '{"from":"queued","to":"running"}')


@pytest.mark.parametrize(
    ("numbers", "changes", "is_whole", "promises"),
    [
        (Numbers(1, 2, 2), [ENTERED, STARTED], True, []),
        (Numbers(2, 2, 1), [STARTED], False, []),
        (None, [], False, []),
        (None, [], True, ["I13", "I12"]),
        (Numbers(2, 2, 1), [ENTERED, STARTED], True, ["I13"]),
        (Numbers(1, 2, 2), [], True, ["I12"]),
        (Numbers(1, 2, 2), [STARTED], True, ["I12"]),
        (Numbers(1, 2, 2), [ENTERED._replace(seq=9), STARTED], True, ["I12"]),
        (Numbers(1, 2, 2), [Change(1, 1, '{"from":null,"to":"running"}')], True, ["I12"]),
    ],
)
def test_i12_a_run_and_its_events_tell_the_same(
    numbers: Numbers | None, changes: list[Change], is_whole: bool, promises: list[str]
) -> None:
    run = a_run(status=RunStatus.RUNNING, run_seq=2)
    found = check_history(run, numbers, changes, is_whole=is_whole)
    assert [finding.promise for finding in found] == promises


def test_i13_every_gap_is_named_with_its_bounds() -> None:
    page = EventPage(after_seq=10, up_to_seq=20, seqs=[12, 13, 17, 18, 19])
    assert [finding.place for finding in check_events(page)] == [
        "event 11",
        "events 14 to 16",
        "event 20",
    ]
    assert list(check_events(EventPage(10, 20, None))) == []
    assert list(check_events(EventPage(10, 12, [11, 12]))) == []


def test_i5_when_the_events_that_would_tell_are_pruned_nobody_is_blamed() -> None:
    def weights(**seen: Any) -> list[Weight]:
        use = {"held_count": 2, "taken_seq": None, "is_changed_since": False} | seen
        revision = use.pop("revision", 3)
        lane = Lane(LaneName("main"), 1, revision=revision)
        return [finding.weight for finding in check_lane(LaneUse(lane=lane, **use))]

    assert weights() == [Weight.NOTE]
    assert weights(revision=0) == [Weight.VIOLATION]
    assert weights(taken_seq=7) == [Weight.VIOLATION]
    assert weights(taken_seq=7, is_changed_since=True) == [Weight.NOTE]
    assert weights(held_count=1, revision=0) == []


def slot_event(seq: int, kind: str, beginning: str = "{}", *, run: str = "r1") -> SlotEvent:
    run_id = None if kind == EventType.LANE_CHANGED else RunId(run)
    return SlotEvent(seq, run_id, LaneName("batch"), kind, beginning)


def start(seq: int, run: str) -> SlotEvent:
    return slot_event(seq, EventType.STATE_CHANGED, '{"from":"queued","to":"running"}', run=run)


def replay(*events: SlotEvent, revision: int = 1, is_whole: bool = True) -> list[int]:
    """Return the numbers of the events after which the lane held more than its limit."""
    slots = SlotReplay([Lane(LaneName("batch"), 2, revision=revision)], is_whole=is_whole)
    found = [finding.place for event in events for finding in slots.take(event)]
    return [int(place.rpartition(" ")[2]) for place in found]


SET_TO_2 = slot_event(1, EventType.LANE_CHANGED, '{"max_concurrent":2,"is_paused":false}')
PAUSED = slot_event(4, EventType.LANE_CHANGED, '{"max_concurrent":2,"is_paused":true}')


@pytest.mark.proves("I5")
def test_a_slot_counts_until_its_run_ends_waits_or_is_taken_over() -> None:
    cancelling = '{"from":"running","to":"cancelling"}'
    two = [SET_TO_2, start(2, "r1"), start(3, "r2")]
    assert replay(*two) == []
    held_on = slot_event(4, EventType.STATE_CHANGED, cancelling)
    assert replay(*two, held_on, start(5, "r3")) == [5]
    for kind in (EventType.WAITING, EventType.PARKED, EventType.RETRIED, EventType.TAKEN_OVER):
        assert replay(*two, slot_event(4, kind), start(5, "r3")) == []
        resumed = slot_event(6, EventType.RESUMED)
        assert replay(*two, slot_event(4, kind), start(5, "r3"), resumed) == [6]
    ended = slot_event(4, EventType.STATE_CHANGED, '{"from":"cancelling","to":"canceled"}')
    assert replay(*two, ended, start(5, "r3")) == []


@pytest.mark.proves("I5")
def test_the_limit_in_force_at_the_event_counts() -> None:
    assert replay(start(1, "r1"), start(2, "r2")) == [2]  # Until it is set, the limit is 1.
    assert replay(SET_TO_2, start(2, "r1"), start(3, "r2"), PAUSED) == []
    assert replay(SET_TO_2, start(2, "r1"), PAUSED, start(5, "r2")) == [5]
    # A lane that was never changed has had the limit that it has now.
    assert replay(start(1, "r1"), start(2, "r2"), revision=0) == []


@pytest.mark.proves("I5", "I14")
def test_events_that_are_pruned_while_they_are_read_give_no_false_alarm() -> None:
    slots = SlotReplay([Lane(LaneName("batch"), 1, revision=1)], is_whole=True)
    assert list(slots.take(start(1, "r1"))) == []
    slots.forget()  # The event that returned the slot of r1 is gone.
    assert list(slots.take(start(9, "r2"))) == []
    assert list(slots.take(slot_event(10, EventType.LANE_CHANGED, '{"max_concurrent":1}'))) == []
    assert len(list(slots.take(start(11, "r3")))) == 1


@pytest.mark.proves("I5", "I14")
def test_a_pruned_stream_gives_no_false_alarm() -> None:
    assert replay(start(11, "r1"), start(12, "r2"), is_whole=False) == []
    assert replay(slot_event(11, EventType.PARKED), start(12, "r2"), is_whole=False) == []
