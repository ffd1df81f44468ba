"""`python -m tests.mutants`: prints how many planted bugs were caught, and by which tests.

Each bug is planted into a copy of the tree, so that the product needs no switch for it. The tests
must first pass on the unchanged tree, because a test that fails anyway catches nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import track

from tests.mutants.adapters import ADAPTERS
from tests.mutants.api import API
from tests.mutants.core import CORE
from tests.mutants.flows import FLOWS
from tests.mutants.lanes import LANES
from tests.mutants.mutant import Mutant
from tests.mutants.runtime import RUNTIME
from tests.mutants.services import SERVICES

ROOT: Final = Path(__file__).parents[2]
MUTANTS: Final = (*CORE, *FLOWS, *SERVICES, *ADAPTERS, *LANES, *RUNTIME, *API)
PARALLEL_COUNT: Final = 2
TEST_S_MAX: Final = 30
"""A test that hangs because of a bug fails after this time."""


def main() -> None:
    console = Console()
    check_clean()
    caught_count = 0
    with ThreadPoolExecutor(PARALLEL_COUNT) as pool:
        results = track(
            zip(MUTANTS, pool.map(caught_by, MUTANTS), strict=True),
            total=len(MUTANTS),
            console=Console(stderr=True),
            description="planted bugs",
        )
        for mutant, failed_tests in results:
            caught_count += bool(failed_tests)
            verdict = f"caught by {failed_tests[0]}" if failed_tests else "NOT CAUGHT"
            console.print(f"{mutant.name}: {verdict}", soft_wrap=True)
    console.print(f"{caught_count} of {len(MUTANTS)} caught")
    sys.exit(0 if caught_count == len(MUTANTS) else 1)


def check_clean() -> None:
    """Exit with an error if a named test fails without a planted bug."""
    for backend in sorted({mutant.backend for mutant in MUTANTS}):
        failed = failures(ROOT, [mutant for mutant in MUTANTS if mutant.backend == backend])
        if failed:
            sys.exit(f"these tests fail without a planted bug: {' '.join(failed)}")


def caught_by(mutant: Mutant) -> list[str]:
    """Plant the bug into a copy of the tree and return the tests that fail there."""
    with tempfile.TemporaryDirectory(prefix="headway-mutant-") as folder:
        copy = Path(folder, "tree")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".*cache*"))
        path = copy / "src" / "headway" / mutant.file
        text = path.read_text()
        for old, new in mutant.edits:
            if text.count(old) != 1:
                sys.exit(f"{mutant.file} must contain this text exactly once: {old!r}")
            text = text.replace(old, new)
        compile(text, mutant.file, "exec")  # A syntax error would make every test fail.
        path.write_text(text)
        return failures(copy, [mutant])


def failures(tree: Path, mutants: Sequence[Mutant]) -> list[str]:
    """Return the first test of the mutants that fails in `tree`. They must share a backend."""
    tests = sorted({f"{mutant.test_file}::{mutant.test}" for mutant in mutants})
    process = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            # A failed test may leave sockets open. Their warnings, as errors, can crash pytest.
            "-W", "ignore::ResourceWarning",
            f"--timeout={TEST_S_MAX}", f"--backends={mutants[0].backend}", *tests,
        ],
        cwd=tree, env=os.environ | {"PYTHONPATH": str(tree / "src")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", process.stdout, flags=re.MULTILINE)
    # pytest can also exit with 1 because it crashed itself, without the names of failed tests.
    if process.returncode != (1 if failed else 0):
        sys.exit(f"{' '.join(tests)} cannot be run:\n{process.stdout}{process.stderr}")
    return failed


if __name__ == "__main__":
    main()
