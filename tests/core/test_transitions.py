"""The one table of moves (R2.1), all of them forward (R2.3), and its states' words (R1.6)."""

import pytest

from headway.core.run.status import IDLE_NAME, STATUS_NAMES, RunStatus, row_status_name
from headway.core.run.transitions import ACTIVE, TERMINAL, TRANSITIONS, Trigger

# As the requirement has it, plus what a take-over and a forced cancel need.
REQUIRED = {
    ("queued", "running"),
    ("queued", "canceled"),
    ("queued", "timed_out"),
    ("running", "succeeded"),
    ("cancelling", "succeeded"),
    ("running", "failed"),
    ("cancelling", "failed"),
    ("running", "cancelling"),
    ("running", "timed_out"),
    ("cancelling", "canceled"),
    ("running", "running"),
}


def moves() -> set[tuple[str, str]]:
    return {(source, end) for edges in TRANSITIONS.values() for source, end in edges.items()}


@pytest.mark.proves("R2.1")
def test_the_table_has_the_required_moves_and_no_other() -> None:
    assert moves() == REQUIRED


@pytest.mark.proves("R2.1")
def test_every_trigger_has_its_moves() -> None:
    assert set(TRANSITIONS) == set(Trigger)
    assert all(TRANSITIONS.values())


@pytest.mark.proves("R2.3")
def test_what_is_terminal_has_no_way_out() -> None:
    assert {
        RunStatus.SUCCEEDED,
        RunStatus.FAILED,
        RunStatus.CANCELED,
        RunStatus.TIMED_OUT,
        RunStatus.REJECTED,
    } == TERMINAL
    assert set(RunStatus) - TERMINAL == ACTIVE
    assert not {source for source, _ in moves()} & TERMINAL


@pytest.mark.proves("R2.3")
def test_states_only_move_forward() -> None:
    """No path comes back to a state that was left; a take-over stays where it is."""
    onward: dict[str, set[str]] = {}
    for source, end in moves() - {("running", "running")}:
        onward.setdefault(source, set()).add(end)

    def reachable(source: str) -> set[str]:
        ends = onward.get(source, set())
        return ends.union(*(reachable(end) for end in ends))

    assert all(status not in reachable(status) for status in RunStatus)
    assert reachable(RunStatus.QUEUED) == set(RunStatus) - {RunStatus.QUEUED, RunStatus.REJECTED}


@pytest.mark.proves("R2.1")
def test_a_rejected_run_never_was_anything_else() -> None:
    assert RunStatus.REJECTED not in {status for move in moves() for status in move}


@pytest.mark.proves("R1.6")
def test_every_state_has_a_word_in_each_of_the_three_vocabularies() -> None:
    assert set(STATUS_NAMES) == set(RunStatus)
    rows = {words.row for words in STATUS_NAMES.values()} | {IDLE_NAME}
    assert rows == {"Idle", "Queued", "Running", "Done", "Failed", "Cancelled"}
    tasks = {words.task for words in STATUS_NAMES.values()}
    assert tasks == {"pending", "running", "canceling", "completed", "failed", "canceled"}


@pytest.mark.proves("R1.6")
@pytest.mark.parametrize(
    ("status", "row", "task"),
    [
        ("queued", "Queued", "pending"),
        ("running", "Running", "running"),
        ("cancelling", "Running", "canceling"),
        ("succeeded", "Done", "completed"),
        ("failed", "Failed", "failed"),
        ("canceled", "Cancelled", "canceled"),
        ("timed_out", "Failed", "failed"),
    ],
)
def test_the_words_of_a_run_that_has_started(status: str, row: str, task: str) -> None:
    assert STATUS_NAMES[RunStatus(status)] == (row, task)
    assert row_status_name(RunStatus(status), has_started=True) == row


@pytest.mark.proves("R1.6")
def test_a_run_canceled_before_it_started_leaves_its_key_idle() -> None:
    assert row_status_name(RunStatus.CANCELED, has_started=False) == "Idle"
    assert row_status_name(RunStatus.TIMED_OUT, has_started=False) == "Failed"
    assert row_status_name(RunStatus.REJECTED, has_started=False) == "Idle"
