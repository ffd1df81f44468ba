"""`python -m tests.mutants`: prints how many of the planted bugs were caught, and by which tests.

Each is planted into a copy of the tree, so that the product needs no switch for it. Before that the
tests must pass on the tree as it is: a test that fails anyway catches nothing.
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
"""What hangs is caught too, in time."""


def main() -> None:
    console = Console()
    check_clean()
    caught_count = 0
    with ThreadPoolExecutor(PARALLEL_COUNT) as pool:
        found = track(
            zip(MUTANTS, pool.map(caught_by, MUTANTS), strict=True),
            total=len(MUTANTS),
            console=Console(stderr=True),
            description="planted bugs",
        )
        for mutant, killers in found:
            caught_count += bool(killers)
            verdict = f"caught by {killers[0]}" if killers else "NOT CAUGHT"
            console.print(f"{mutant.name}: {verdict}", soft_wrap=True)
    console.print(f"{caught_count} of {len(MUTANTS)} caught")
    sys.exit(0 if caught_count == len(MUTANTS) else 1)


def check_clean() -> None:
    """All tests that are named must pass where nothing is planted."""
    for backend in sorted({mutant.backend for mutant in MUTANTS}):
        failed = failures(ROOT, [one for one in MUTANTS if one.backend == backend])
        if failed:
            sys.exit(f"without any planted bug these fail: {' '.join(failed)}")


def caught_by(mutant: Mutant) -> list[str]:
    """The tests that fail in a copy of the tree that has the bug."""
    with tempfile.TemporaryDirectory(prefix="headway-mutant-") as folder:
        copy = Path(folder, "tree")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".*cache*"))
        path = copy / "src" / "headway" / mutant.file
        text = path.read_text()
        for old, new in mutant.edits:
            if text.count(old) != 1:
                sys.exit(f"{mutant.file} must hold this once: {old!r}")
            text = text.replace(old, new)
        compile(text, mutant.file, "exec")  # A bug that does not even compile proves nothing.
        path.write_text(text)
        return failures(copy, [mutant])


def failures(tree: Path, mutants: Sequence[Mutant]) -> list[str]:
    """Which of their tests fails first, in `tree`; they share a backend."""
    named = sorted({f"{one.test_file}::{one.test}" for one in mutants})
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            f"--timeout={TEST_S_MAX}", f"--backends={mutants[0].backend}", *named,
        ],
        cwd=tree, env=os.environ | {"PYTHONPATH": str(tree / "src")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(named)} cannot be run:\n{done.stdout}{done.stderr}")
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
