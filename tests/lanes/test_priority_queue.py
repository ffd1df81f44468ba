"""The order of a queue: priorities, ageing, and the entries behind them (R3.12)."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.lanes.entry import Entry, Priority, TaskId
from headway.lanes.priority_queue import GAP_COUNT_MIN, PASSES_PER_LEVEL, Fifo, PriorityQueue
from tests.lanes.scenes import an_entry

FOREGROUND, NORMAL, BACKGROUND = Priority


def a_queue(*priorities: Priority) -> PriorityQueue:
    queue = PriorityQueue()
    for number, priority in enumerate(priorities):
        queue.add(an_entry(number, priority=priority))
    return queue


def pop_all(queue: PriorityQueue) -> list[int]:
    ids: list[int] = []
    while queue:
        ids.append(queue.pop().task_id)
    return ids


@pytest.mark.proves("R3.12")
def test_urgent_entries_go_first_and_equally_urgent_ones_in_order_of_arrival() -> None:
    queue = a_queue(BACKGROUND, NORMAL, FOREGROUND, BACKGROUND, NORMAL, FOREGROUND)
    assert pop_all(queue) == [2, 5, 1, 4, 0, 3]


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize(
    ("priority", "passes"), [(NORMAL, PASSES_PER_LEVEL), (BACKGROUND, 2 * PASSES_PER_LEVEL)]
)
def test_entry_of_lower_priority_is_started_after_a_limited_number_of_others(
    priority: Priority, passes: int
) -> None:
    queue, started = a_queue(priority), []
    for number in range(1, 40):
        queue.add(an_entry(number, priority=FOREGROUND))
        started.append(queue.pop().task_id)
    assert started.index(TaskId(0)) == passes


@pytest.mark.proves("R3.12")
def test_aged_entry_goes_before_later_entries_but_not_before_earlier_ones() -> None:
    urgent = [FOREGROUND] * (PASSES_PER_LEVEL + 2)
    queue = a_queue(*urgent, NORMAL, FOREGROUND)
    # The aged entry has number 10: earlier ones stay before it, whatever the clock shows.
    assert pop_all(queue) == [*range(len(urgent) + 2)]


@pytest.mark.proves("R3.12")
def test_only_the_head_ages_so_a_backlog_does_not_block_urgent_entries() -> None:
    queue = a_queue(*[BACKGROUND] * 50)
    started = []
    for number in range(50, 90):
        queue.add(an_entry(number, priority=FOREGROUND))
        started.append(queue.pop().priority)
    assert started.count(BACKGROUND) == 40 // (2 * PASSES_PER_LEVEL + 1)


@pytest.mark.proves("R3.12")
def test_new_entry_does_not_inherit_the_age_of_a_discarded_entry() -> None:
    queue, aged = a_queue(*[FOREGROUND] * PASSES_PER_LEVEL), an_entry(10, priority=NORMAL)
    queue.add(aged)
    for _ in range(PASSES_PER_LEVEL - 1):
        assert queue.pop().priority is FOREGROUND
    queue.discard(aged)
    queue.add(an_entry(11, priority=NORMAL))
    queue.add(an_entry(12, priority=FOREGROUND))
    assert pop_all(queue) == [PASSES_PER_LEVEL - 1, 12, 11]


@pytest.mark.proves("R3.12")
def test_entries_ahead_are_the_more_urgent_ones_and_earlier_ones_of_equal_priority() -> None:
    queue = PriorityQueue()
    entries = [
        an_entry(number, priority=priority)
        for number, priority in enumerate([BACKGROUND, NORMAL, NORMAL, FOREGROUND])
    ]
    for entry in entries:
        queue.add(entry)
    assert [queue.count_ahead_of(entry) for entry in entries] == [3, 1, 2, 0]


@pytest.mark.proves("R3.12")
@given(st.lists(st.one_of(st.just("add"), st.just("pop"), st.integers(0, 300)), max_size=60))
def test_queue_behaves_like_a_plain_list(moves: list[str | int]) -> None:
    fifo, model, numbers = Fifo(), list[Entry](), count()
    for move in moves:
        if move == "add":
            model.append(an_entry(next(numbers)))
            fifo.add(model[-1])
        elif move == "pop" and model:
            assert fifo.pop() is model.pop(0)
        elif isinstance(move, int) and model:
            fifo.discard(model.pop(move % len(model)))
        assert len(fifo) == len(model)
        assert fifo.entries() == model
        assert [fifo.count_before(entry) for entry in model] == [*range(len(model))]


@pytest.mark.proves("R3.12")
def test_queue_does_not_retain_withdrawn_entries() -> None:
    fifo, first = Fifo(), an_entry(0)
    fifo.add(first)
    for number in range(1, 10_000):
        entry = an_entry(number)
        fifo.add(entry)
        fifo.discard(entry)
    assert len(fifo._ids) <= GAP_COUNT_MIN + 3
    fifo.add(an_entry(10_000))
    assert (fifo.pop().task_id, fifo.pop().task_id) == (TaskId(0), TaskId(10_000))
