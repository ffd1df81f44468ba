"""`machines`: the random operations of `tests/property`, many more, and new ones each time."""

import os
import subprocess
import sys
from pathlib import Path

from tests.torture.replay import Findings

ROOT = Path(__file__).parents[2]


def machines(place: str, example_count: int) -> Findings:
    """Run both machines on a backend; what disagrees with the oracle is printed, and a fault."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--show-capture=no"),
            *("tests/property", "-k", f"{place}-"),
        ],
        cwd=ROOT,
        env=os.environ | {"HEADWAY_EXAMPLES": str(example_count)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return Findings(runs=2 * example_count)
    print(done.stdout, file=sys.stderr)
    return Findings(faults=[f"pytest ended with {done.returncode}; its words are above"])
