"""One lane without a loop or a clock: which entries start, and when (R3.1)."""

from itertools import pairwise

import pytest

from headway.lanes.entry import Entry
from headway.lanes.lane import Lane
from headway.lanes.limits import validate_limits
from tests.lanes.scenes import an_entry


def a_lane(max_concurrent: int = 1) -> Lane:
    return Lane("main", max_concurrent=max_concurrent, generation=0)


def task_ids(entries: list[Entry]) -> list[int]:
    return [entry.task_id for entry in entries]


@pytest.mark.proves("R3.1")
def test_lane_has_a_name_a_queue_active_ids_a_limit_and_a_generation() -> None:
    lane = a_lane()
    assert lane.enqueue(an_entry(1), 0.0)
    assert not lane.enqueue(an_entry(2), 0.0)
    assert lane.view() == ("main", 1, 0, (2,), (1,))


@pytest.mark.proves("R3.1")
def test_waiting_entries_start_in_the_order_of_arrival() -> None:
    lane, entries = a_lane(), [an_entry(number) for number in range(4)]
    for entry in entries:
        lane.enqueue(entry, 0.0)
    for ended, started in pairwise(entries):
        assert list(lane.drain(0.0)) == []
        lane.finish(ended.task_id, ended.generation)
        assert list(lane.drain(0.0)) == [started]
        assert lane.active_ids == [started.task_id]


@pytest.mark.proves("R3.1")
def test_as_many_entries_are_active_as_the_limit_allows() -> None:
    lane = a_lane(max_concurrent=3)
    assert [lane.enqueue(an_entry(number), 0.0) for number in range(5)] == [True] * 3 + [False] * 2


@pytest.mark.proves("R3.1")
def test_nested_drain_starts_no_entry_and_loses_none() -> None:
    lane = a_lane(max_concurrent=0)
    for number in range(3):
        lane.enqueue(an_entry(number), 0.0)
    lane.max_concurrent = 4
    started = []
    for entry in lane.drain(0.0):
        started.append(entry.task_id)
        assert list(lane.drain(0.0)) == []
        if entry.task_id == 2:
            # There is a free slot, but it was granted to entries that have not started yet.
            assert not lane.enqueue(an_entry(3), 0.0)
    assert started == [0, 1, 2, 3]
    lane.max_concurrent = 5
    assert lane.enqueue(an_entry(4), 0.0), "the guard was reset"


@pytest.mark.proves("R3.1")
def test_lane_can_be_drained_again_after_an_interrupted_drain() -> None:
    lane = a_lane(max_concurrent=0)
    lane.enqueue(an_entry(1), 0.0)
    lane.enqueue(an_entry(2), 0.0)
    lane.max_concurrent = 2
    assert next(lane.drain(0.0)).task_id == 1
    assert task_ids(list(lane.drain(0.0))) == [2]


@pytest.mark.proves("R3.8")
def test_task_of_an_old_generation_frees_no_slot_when_it_ends() -> None:
    lane, old, new, third = a_lane(), an_entry(1), an_entry(2), an_entry(3)
    for entry in (old, new, third):
        lane.enqueue(entry, 0.0)
    lane.reset(generation=1)
    assert list(lane.drain(0.0)) == [new]
    lane.finish(old.task_id, old.generation)
    assert list(lane.drain(0.0)) == []
    lane.finish(new.task_id, new.generation)
    assert list(lane.drain(0.0)) == [third]


@pytest.mark.proves("R3.12")
def test_withdrawing_an_entry_keeps_the_order_of_the_others() -> None:
    lane, entries = a_lane(), [an_entry(number) for number in range(5)]
    for entry in entries:
        lane.enqueue(entry, 0.0)
    lane.withdraw(entries[2])
    assert lane.view().waiting == (1, 3, 4)
    lane.withdraw(entries[2])
    assert lane.view().waiting == (1, 3, 4)


@pytest.mark.proves("R3.12")
def test_wait_reports_its_duration_the_entries_ahead_and_the_active_ones() -> None:
    lane, entries = a_lane(max_concurrent=2), [an_entry(number) for number in range(5)]
    for number, entry in enumerate(entries):
        lane.enqueue(entry, float(number))
    wait = lane.wait_report(entries[4], 10.0)
    assert (wait.waited_s, wait.ahead_count) == (10.0, 2)
    assert wait.active == ((0, "", 10.0), (1, "", 9.0))


@pytest.mark.proves("R3.10")
@pytest.mark.parametrize("limit", [0, 1, 1_000_000])
def test_limits_may_be_zero_or_positive_integers(limit: int) -> None:
    assert validate_limits({" a ": limit}) == {"a": limit}
