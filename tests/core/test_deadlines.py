"""The deadlines of a run, and which of them is next (R2.8, I11, I18)."""

import pytest

from headway.core.ids import Instant, add_seconds
from headway.core.run.deadlines import apply_changes, is_overdue, next_deadline
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.testing import FakeClock, a_run

DEADLINES = {
    "queue_deadline_at": Instant(10),
    "run_deadline_at": Instant(20),
    "wake_at": Instant(30),
    "cancel_deadline_at": Instant(40),
}


@pytest.mark.proves("R2.8")
@pytest.mark.parametrize(
    ("status", "due_at"),
    [(RunStatus.QUEUED, 10), (RunStatus.RUNNING, 20), (RunStatus.CANCELLING, 40)],
)
def test_each_state_has_its_own_deadline(status: RunStatus, due_at: int) -> None:
    assert next_deadline(a_run(status=status, **DEADLINES)) == due_at
    assert next_deadline(a_run(status=status)) is None


@pytest.mark.proves("I7")
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_ended_run_has_no_deadline(status: RunStatus) -> None:
    assert next_deadline(a_run(status=status, **DEADLINES)) is None


@pytest.mark.proves("I18")
@pytest.mark.parametrize(
    ("run_deadline_at", "wake_at", "due_at"),
    [(None, 5, 5), (5, None, 5), (5, 9, 5), (9, 5, 5), (None, None, None)],
)
def test_running_run_is_due_at_the_earlier_of_its_two_deadlines(
    run_deadline_at: Instant | None, wake_at: Instant | None, due_at: int | None
) -> None:
    run = a_run(status=RunStatus.RUNNING, run_deadline_at=run_deadline_at, wake_at=wake_at)
    assert next_deadline(run) == due_at


@pytest.mark.proves("R2.8")
@pytest.mark.parametrize(("now", "expected"), [(9, False), (10, True), (11, True)])
def test_run_is_overdue_from_the_instant_of_its_deadline(now: Instant, expected: bool) -> None:
    assert is_overdue(a_run(queue_deadline_at=Instant(10)), now) is expected
    running = a_run(
        status=RunStatus.RUNNING, queue_deadline_at=Instant(1), run_deadline_at=Instant(10)
    )
    assert is_overdue(running, now) is expected


@pytest.mark.proves("R2.8")
def test_run_without_a_limit_is_never_overdue() -> None:
    assert not is_overdue(a_run(run_deadline_at=Instant(1)), Instant(10))
    assert not is_overdue(a_run(status=RunStatus.RUNNING, wake_at=Instant(1)), Instant(10))


@pytest.mark.proves("R2.8")
def test_due_time_is_updated_with_the_deadlines() -> None:
    run = a_run(queue_deadline_at=Instant(10), due_at=Instant(10))
    changes = {"status": RunStatus.RUNNING, "run_deadline_at": Instant(20), "job": run.job}
    after, new = apply_changes(run, changes)
    assert (after.status, after.run_deadline_at, after.due_at) == (RunStatus.RUNNING, 20, 20)
    # Unchanged columns are not written.
    assert new == {"status": RunStatus.RUNNING, "run_deadline_at": 20, "due_at": 20}


@pytest.mark.proves("I18")
def test_adding_seconds_to_an_instant_is_exact_to_the_microsecond() -> None:
    assert add_seconds(Instant(0), seconds=0.000001) == 1
    assert add_seconds(Instant(1_750_000_000_000_000), seconds=0.1) == 1_750_000_000_100_000


@pytest.mark.proves("I18")
def test_fake_clock_moves_only_when_it_is_moved() -> None:
    clock = FakeClock(Instant(5))
    assert (clock(), clock()) == (5, 5)
    assert clock.advance(1.5) == clock() == 1_500_005
    assert clock.advance(-1.5) == 5
