"""The doctor on values: above all on those that a database cannot be made to hold."""

from typing import Any

import pytest

from headway.core.doctor.finding import Weight
from headway.core.doctor.history import Change, Numbers, check_history
from headway.core.doctor.page import Head, RunPage, check_page
from headway.core.doctor.stream import EventPage, LaneUse, check_events, check_lane
from headway.core.ids import LaneName
from headway.core.lane import Lane
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.testing import a_run
from headway.testing.clock import NOON


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
