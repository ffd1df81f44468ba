"""Who is next: priorities, ageing, and the queue behind them (R3.12)."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.lanes.entry import Entry, Priority, TaskId
from headway.lanes.fifo import GAP_COUNT_MIN, Fifo
from headway.lanes.priority_queue import PASSES_PER_LEVEL, PriorityQueue
from tests.lanes.scenes import an_entry

FOREGROUND, NORMAL, BACKGROUND = Priority


def a_line(*priorities: Priority) -> PriorityQueue:
    line = PriorityQueue()
    for number, priority in enumerate(priorities):
        line.add(an_entry(number, priority=priority))
    return line


def popped(line: PriorityQueue) -> list[int]:
    ids: list[int] = []
    while line:
        ids.append(line.pop().task_id)
    return ids


@pytest.mark.proves("R3.12")
def test_the_more_urgent_go_first_and_equals_in_the_order_of_arrival() -> None:
    line = a_line(BACKGROUND, NORMAL, FOREGROUND, BACKGROUND, NORMAL, FOREGROUND)
    assert popped(line) == [2, 5, 1, 4, 0, 3]


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize(
    ("priority", "passes"), [(NORMAL, PASSES_PER_LEVEL), (BACKGROUND, 2 * PASSES_PER_LEVEL)]
)
def test_nobody_is_passed_over_for_ever(priority: Priority, passes: int) -> None:
    line, started = a_line(priority), []
    for number in range(1, 40):
        line.add(an_entry(number, priority=FOREGROUND))
        started.append(line.pop().task_id)
    assert started.index(TaskId(0)) == passes


@pytest.mark.proves("R3.12")
def test_who_has_aged_goes_before_equals_with_a_higher_number_only() -> None:
    urgent = [FOREGROUND] * (PASSES_PER_LEVEL + 2)
    line = a_line(*urgent, NORMAL, FOREGROUND)
    # The aged one has number 10: those who came before it stay before it, whatever the clock says.
    assert popped(line) == [*range(len(urgent) + 2)]


@pytest.mark.proves("R3.12")
def test_ageing_helps_the_head_only_so_a_backlog_does_not_block_the_urgent() -> None:
    line = a_line(*[BACKGROUND] * 50)
    started = []
    for number in range(50, 90):
        line.add(an_entry(number, priority=FOREGROUND))
        started.append(line.pop().priority)
    assert started.count(BACKGROUND) == 40 // (2 * PASSES_PER_LEVEL + 1)


@pytest.mark.proves("R3.12")
def test_who_comes_into_an_empty_priority_does_not_inherit_its_age() -> None:
    line, aged = a_line(*[FOREGROUND] * PASSES_PER_LEVEL), an_entry(10, priority=NORMAL)
    line.add(aged)
    for _ in range(PASSES_PER_LEVEL - 1):
        assert line.pop().priority is FOREGROUND
    line.discard(aged)
    line.add(an_entry(11, priority=NORMAL))
    line.add(an_entry(12, priority=FOREGROUND))
    assert popped(line) == [PASSES_PER_LEVEL - 1, 12, 11]


@pytest.mark.proves("R3.12")
def test_the_more_urgent_stand_ahead_and_the_patient_do_not() -> None:
    line = PriorityQueue()
    entries = [
        an_entry(number, priority=priority)
        for number, priority in enumerate([BACKGROUND, NORMAL, NORMAL, FOREGROUND])
    ]
    for entry in entries:
        line.add(entry)
    assert [line.count_ahead_of(entry) for entry in entries] == [3, 1, 2, 0]


@pytest.mark.proves("R3.12")
@given(st.lists(st.one_of(st.just("add"), st.just("pop"), st.integers(0, 300)), max_size=60))
def test_a_queue_does_what_a_list_does(moves: list[str | int]) -> None:
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
def test_a_queue_that_many_have_left_keeps_no_trace_of_them() -> None:
    fifo, first = Fifo(), an_entry(0)
    fifo.add(first)
    for number in range(1, 10_000):
        entry = an_entry(number)
        fifo.add(entry)
        fifo.discard(entry)
    assert len(fifo._ids) <= GAP_COUNT_MIN + 3
    fifo.add(an_entry(10_000))
    assert (fifo.pop().task_id, fifo.pop().task_id) == (TaskId(0), TaskId(10_000))
