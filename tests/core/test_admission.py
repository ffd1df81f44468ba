"""The outcome of a submission whose key is busy, for each of the five policies (R1.5)."""

import pytest

from headway.core.run.admission import Admission, OnConflict, decide_admission
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import ACTIVE
from headway.testing import a_run


def head(status: RunStatus, *, window: int = 0) -> Run:
    return a_run(status=status, window=window)


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("on_conflict", OnConflict)
def test_idle_key_admits_a_run_under_every_conflict_policy(on_conflict: OnConflict) -> None:
    assert decide_admission(on_conflict, None) is Admission.ENTER


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("status", sorted(ACTIVE))
@pytest.mark.parametrize(
    ("on_conflict", "admission"),
    [
        (OnConflict.REJECT, Admission.REFUSE),
        (OnConflict.ENQUEUE, Admission.QUEUE),
        (OnConflict.REPLACE, Admission.SUPERSEDE),
        (OnConflict.JOIN, Admission.SHARE),
        (OnConflict.STEER, Admission.QUEUE),
    ],
)
def test_conflict_policy_decides_the_outcome_for_a_busy_key(
    status: RunStatus, on_conflict: OnConflict, admission: Admission
) -> None:
    assert decide_admission(on_conflict, head(status)) is admission


@pytest.mark.proves("R1.5")
@pytest.mark.parametrize("status", sorted(ACTIVE))
def test_only_a_running_run_that_accepts_messages_is_steered(status: RunStatus) -> None:
    expected = Admission.INJECT if status is RunStatus.RUNNING else Admission.QUEUE
    assert decide_admission(OnConflict.STEER, head(status, window=1)) is expected
