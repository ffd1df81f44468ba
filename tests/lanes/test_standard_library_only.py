"""The lanes need only the standard library, and their errors can be copied and pickled."""

import pickle
import subprocess
import sys
from copy import copy
from pathlib import Path

import pytest

import headway.lanes
from headway.lanes import (
    InvalidLimits,
    InvalidWork,
    LaneCleared,
    LaneError,
    LanesDraining,
    TaskTimedOut,
)

ERRORS: list[LaneError] = [
    InvalidWork("work must be a function"),
    LaneCleared("main"),
    LanesDraining("main"),
    TaskTimedOut("main", 1.5, False),
    TaskTimedOut("main", 1.5, True),
    InvalidLimits(["a", "b"]),
]


def test_lanes_import_only_the_standard_library() -> None:
    source = Path(headway.lanes.__file__).parents[2]
    program = (
        f"import sys; sys.path.insert(0, {str(source)!r}); import headway.lanes; "
        "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    # With -S only the packages that come with Python can be imported.
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert set(ran.stdout.split()) <= {"headway", "__main__", "sitecustomize"}


def test_every_lane_error_class_has_a_test_case() -> None:
    assert set(LaneError.__subclasses__()) == {type(error) for error in ERRORS}


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_error_is_equal_after_copying_and_pickling(error: LaneError) -> None:
    for again in (copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))
