"""The rules of the doctor on values, above all those that a database cannot be made to hold."""

from typing import Any

import pytest

from headway.core.doctor.finding import Severity
from headway.core.doctor.history import RunSeqRange, StateChange, check_history
from headway.core.doctor.run_page import ExaminedRuns, KeyHead, check_page
from headway.core.doctor.slots import SlotEvent, SlotReplay
from headway.core.doctor.stream import ExaminedEvents, LaneUsage, check_events, check_lane
from headway.core.ids import LaneName, RunId
from headway.core.lane_row import LaneRow
from headway.core.run.events import EventType
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.testing import a_run
from headway.testing.fake_clock import NOON


def a_page(*runs: Run, **columns: Any) -> ExaminedRuns:
    """Return a page of queued runs, each with the one event that it should have."""
    return ExaminedRuns(
        runs=runs,
        unknown_values={},
        last_seq=runs[-1].seq,
        pruned_seq=0,
        heads=columns.get("heads", {}),
        first_waiting_seqs={},
        predecessor_ids={},
        run_seq_ranges={run.id: RunSeqRange(1, 1, 1) for run in runs},
        changes={run.id: [StateChange(run.seq, 1, '{"from":null,"to":"queued"}')] for run in runs},
        unread_counts={},
        instances=(),
        orphan_parent_ids={},
    )


@pytest.mark.proves("I4")
def test_second_head_of_a_key_is_reported_once() -> None:
    first, second = a_run(seq=1), a_run(seq=2, ready_seq=2)
    heads = {
        run.key: [KeyHead(head.key, head.seq, head.id, None) for head in (second, first)]
        for run in (first,)
    }
    (finding,) = check_page(a_page(first, second, heads=heads), now=NOON, grace_s=16)
    assert (finding.severity, finding.promise) == (Severity.VIOLATION, "I4")
    assert (finding.subject, finding.sentence) == (
        f"run {second.id}",
        "key 'ann' has more than one head",
    )


ENTERED = StateChange(1, 1, '{"from":null,"to":"queued"}')
STARTED = StateChange(2, 2, '{"from":"queued","to":"running"}')


@pytest.mark.proves("I12")
@pytest.mark.parametrize(
    ("numbers", "changes", "is_whole", "promises"),
    [
        (RunSeqRange(1, 2, 2), [ENTERED, STARTED], True, []),
        (RunSeqRange(2, 2, 1), [STARTED], False, []),
        (None, [], False, []),
        (None, [], True, ["I13", "I12"]),
        (RunSeqRange(2, 2, 1), [ENTERED, STARTED], True, ["I13"]),
        (RunSeqRange(1, 2, 2), [], True, ["I12"]),
        (RunSeqRange(1, 2, 2), [STARTED], True, ["I12"]),
        (RunSeqRange(1, 2, 2), [ENTERED._replace(seq=9), STARTED], True, ["I12"]),
        (RunSeqRange(1, 2, 2), [StateChange(1, 1, '{"from":null,"to":"running"}')], True, ["I12"]),
    ],
)
def test_run_that_differs_from_its_events_is_reported(
    numbers: RunSeqRange | None, changes: list[StateChange], is_whole: bool, promises: list[str]
) -> None:
    run = a_run(status=RunStatus.RUNNING, run_seq=2)
    findings = check_history(run, numbers, changes, is_unpruned=is_whole)
    assert [finding.promise for finding in findings] == promises


@pytest.mark.proves("I13")
def test_every_gap_is_reported_with_its_bounds() -> None:
    page = ExaminedEvents(after_seq=10, up_to_seq=20, seqs=[12, 13, 17, 18, 19])
    assert [finding.subject for finding in check_events(page)] == [
        "event 11",
        "events 14 to 16",
        "event 20",
    ]
    assert list(check_events(ExaminedEvents(10, 20, None))) == []
    assert list(check_events(ExaminedEvents(10, 12, [11, 12]))) == []


@pytest.mark.proves("I5")
def test_excess_slots_are_only_a_note_if_earlier_events_are_pruned() -> None:
    def severities(**values: Any) -> list[Severity]:
        columns = {"held_count": 2, "last_taken_seq": None, "is_changed_since": False} | values
        revision = columns.pop("revision", 3)
        lane = LaneRow(LaneName("main"), 1, revision=revision)
        return [finding.severity for finding in check_lane(LaneUsage(lane=lane, **columns))]

    assert severities() == [Severity.NOTE]
    assert severities(revision=0) == [Severity.VIOLATION]
    assert severities(last_taken_seq=7) == [Severity.VIOLATION]
    assert severities(last_taken_seq=7, is_changed_since=True) == [Severity.NOTE]
    assert severities(held_count=1, revision=0) == []


def slot_event(seq: int, kind: str, beginning: str = "{}", *, run: str = "r1") -> SlotEvent:
    run_id = None if kind == EventType.LANE_CHANGED else RunId(run)
    return SlotEvent(seq, run_id, LaneName("batch"), kind, beginning)


def start(seq: int, run: str) -> SlotEvent:
    return slot_event(seq, EventType.STATE_CHANGED, '{"from":"queued","to":"running"}', run=run)


def replay(*events: SlotEvent, revision: int = 1, is_whole: bool = True) -> list[int]:
    """Return the numbers of the events after which the lane held more than its limit."""
    slots = SlotReplay([LaneRow(LaneName("batch"), 2, revision=revision)], is_unpruned=is_whole)
    subjects = [finding.subject for event in events for finding in slots.apply(event)]
    return [int(subject.rpartition(" ")[2]) for subject in subjects]


SET_TO_2 = slot_event(1, EventType.LANE_CHANGED, '{"max_concurrent":2,"is_paused":false}')
PAUSED = slot_event(4, EventType.LANE_CHANGED, '{"max_concurrent":2,"is_paused":true}')


@pytest.mark.proves("I5")
def test_slot_counts_as_held_until_its_run_ends_waits_or_is_taken_over() -> None:
    cancelling = '{"from":"running","to":"cancelling"}'
    two = [SET_TO_2, start(2, "r1"), start(3, "r2")]
    assert replay(*two) == []
    cancelling_event = slot_event(4, EventType.STATE_CHANGED, cancelling)
    assert replay(*two, cancelling_event, start(5, "r3")) == [5]
    for kind in (EventType.WAITING, EventType.PARKED, EventType.RETRIED, EventType.TAKEN_OVER):
        assert replay(*two, slot_event(4, kind), start(5, "r3")) == []
        resumed = slot_event(6, EventType.RESUMED)
        assert replay(*two, slot_event(4, kind), start(5, "r3"), resumed) == [6]
    ended = slot_event(4, EventType.STATE_CHANGED, '{"from":"cancelling","to":"canceled"}')
    assert replay(*two, ended, start(5, "r3")) == []


@pytest.mark.proves("I5")
def test_doctor_compares_held_slots_with_the_limit_at_the_time_of_each_event() -> None:
    assert replay(start(1, "r1"), start(2, "r2")) == [2]  # Until it is set, the limit is 1.
    assert replay(SET_TO_2, start(2, "r1"), start(3, "r2"), PAUSED) == []
    assert replay(SET_TO_2, start(2, "r1"), PAUSED, start(5, "r2")) == [5]
    # A lane that was never changed has always had its current limit.
    assert replay(start(1, "r1"), start(2, "r2"), revision=0) == []


@pytest.mark.proves("I5", "I14")
def test_doctor_reports_no_violation_when_events_are_pruned_during_the_read() -> None:
    slots = SlotReplay([LaneRow(LaneName("batch"), 1, revision=1)], is_unpruned=True)
    assert list(slots.apply(start(1, "r1"))) == []
    slots.reset()  # The event that returned the slot of r1 is gone.
    assert list(slots.apply(start(9, "r2"))) == []
    assert list(slots.apply(slot_event(10, EventType.LANE_CHANGED, '{"max_concurrent":1}'))) == []
    assert len(list(slots.apply(start(11, "r3")))) == 1


@pytest.mark.proves("I5", "I14")
def test_doctor_reports_no_violation_when_the_stream_is_pruned() -> None:
    assert replay(start(11, "r1"), start(12, "r2"), is_whole=False) == []
    assert replay(slot_event(11, EventType.PARKED), start(12, "r2"), is_whole=False) == []
