"""The one transition table (R2.1), its forward direction (R2.3) and status names (R1.6)."""

import pytest

from headway.core.run.status import IDLE_NAME, STATUS_NAMES, RunStatus, row_status_name
from headway.core.run.transitions import ACTIVE, TERMINAL, TRANSITIONS, Trigger

# The transitions of the requirement, plus those of a take-over and a forced cancel.
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


def list_transitions() -> set[tuple[str, str]]:
    return {(source, end) for edges in TRANSITIONS.values() for source, end in edges.items()}


@pytest.mark.proves("R2.1")
def test_table_has_exactly_the_required_transitions() -> None:
    assert list_transitions() == REQUIRED


@pytest.mark.proves("R2.1")
def test_every_trigger_has_transitions() -> None:
    assert set(TRANSITIONS) == set(Trigger)
    assert all(TRANSITIONS.values())


@pytest.mark.proves("R2.3")
def test_terminal_status_has_no_transition() -> None:
    assert {
        RunStatus.SUCCEEDED,
        RunStatus.FAILED,
        RunStatus.CANCELED,
        RunStatus.TIMED_OUT,
        RunStatus.REJECTED,
    } == TERMINAL
    assert set(RunStatus) - TERMINAL == ACTIVE
    assert not {source for source, _ in list_transitions()} & TERMINAL


@pytest.mark.proves("R2.3")
def test_statuses_only_move_forward() -> None:
    """No path returns to a status that was left; a take-over keeps the status."""
    onward: dict[str, set[str]] = {}
    for source, end in list_transitions() - {("running", "running")}:
        onward.setdefault(source, set()).add(end)

    def reachable(source: str) -> set[str]:
        ends = onward.get(source, set())
        return ends.union(*(reachable(end) for end in ends))

    assert all(status not in reachable(status) for status in RunStatus)
    assert reachable(RunStatus.QUEUED) == set(RunStatus) - {RunStatus.QUEUED, RunStatus.REJECTED}


@pytest.mark.proves("R2.1")
def test_rejected_status_has_no_transitions() -> None:
    assert RunStatus.REJECTED not in {status for move in list_transitions() for status in move}


@pytest.mark.proves("R1.6")
def test_every_status_has_a_name_for_rows_and_for_tasks() -> None:
    assert set(STATUS_NAMES) == set(RunStatus)
    rows = {names.row for names in STATUS_NAMES.values()} | {IDLE_NAME}
    assert rows == {"Idle", "Queued", "Running", "Done", "Failed", "Cancelled"}
    tasks = {names.task for names in STATUS_NAMES.values()}
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
def test_row_and_task_names_of_a_started_run_follow_its_status(
    status: str, row: str, task: str
) -> None:
    assert STATUS_NAMES[RunStatus(status)] == (row, task)
    assert row_status_name(RunStatus(status), has_started=True) == row


@pytest.mark.proves("R1.6")
def test_run_canceled_before_it_started_leaves_its_key_idle() -> None:
    assert row_status_name(RunStatus.CANCELED, has_started=False) == "Idle"
    assert row_status_name(RunStatus.TIMED_OUT, has_started=False) == "Failed"
    assert row_status_name(RunStatus.REJECTED, has_started=False) == "Idle"
