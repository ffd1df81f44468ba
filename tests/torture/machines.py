"""`machines` and `flows`: the random tests with many more examples, and new ones each time."""

import os
import subprocess
import sys
from pathlib import Path

from tests.torture.replay import Findings

ROOT = Path(__file__).parents[2]


def machines(place: str, example_count: int) -> Findings:
    """Run both machines on a backend. A disagreement with the oracle is printed and is a fault."""
    return _examples(2, example_count, "tests/property", "-k", f"{place}-")


def flows(example_count: int) -> Findings:
    """Run random flows undisturbed, and with a reload or a crash after every commit."""
    return _examples(3, example_count, "tests/core/flow/test_agreement.py")


def _examples(test_count: int, example_count: int, *tests: str) -> Findings:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--show-capture=no"),
            *tests,
        ],
        cwd=ROOT,
        env=os.environ | {"HEADWAY_EXAMPLES": str(example_count)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return Findings(runs=test_count * example_count)
    print(done.stdout, file=sys.stderr)
    return Findings(faults=[f"pytest ended with {done.returncode}; its words are above"])
