"""`python -m tests.mutants`: prints how many of the mutants were caught, and by which tests."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import track

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    """What is there, and what is put in its place."""
    tests: tuple[str, ...]
    backends: str


MUTANTS: Final = (
    Mutant(
        name="the compare-and-set condition",
        file="adapters/sql/write.py",
        edits=(
            (
                'RUN_GUARDS: Final = ("seq", "status", "token", "revision")',
                'RUN_GUARDS: Final = ("seq",)',
            ),
            (
                "(before.seq, _PLAIN[before.status], before.token, before.revision)",
                "(before.seq,)",
            ),
        ),
        tests=("tests/contract/test_guards.py",),
        backends="sqlite",
    ),
    Mutant(
        name="the fence",
        file="core/world.py",
        edits=(("run.token == NO_TOKEN or run.token != claim.token", "run.token == NO_TOKEN"),),
        tests=("tests/contract/test_fence.py",),
        backends="sqlite",
    ),
    Mutant(
        name="the IMMEDIATE",
        file="adapters/sql/links/sqlite.py",
        edits=(('"BEGIN IMMEDIATE"', '"BEGIN"'),),
        tests=("tests/contract/test_guards.py",),
        backends="sqlite",
    ),
    Mutant(
        name="the role check of failover",
        file="adapters/sql/postgres.py",
        edits=(
            ('        if standby:\n            return "is a standby"\n', "        return None\n"),
        ),
        tests=("tests/sql/test_failover.py", "tests/sql/test_connect.py"),
        backends="postgres",
    ),
    Mutant(
        name="the counter lock of seq",
        file="adapters/sql/load.py",
        edits=(
            (
                '.where(stream.c.id == sa.literal_column("1"))\n    .with_for_update()\n',
                '.where(stream.c.id == sa.literal_column("1"))\n',
            ),
        ),
        tests=("tests/contract/test_guards.py", "tests/contract/test_stream.py"),
        backends="postgres",
    ),
    Mutant(
        name="the third step of a wait",
        file="adapters/redis/runtime_store.py",
        edits=(("        await self._look(run_id, wait)\n        while", "        while"),),
        tests=("tests/runtime/test_interrupts.py",),
        backends="redis",
    ),
    Mutant(
        name="the look after an interruption",
        file="adapters/redis/line.py",
        edits=(("            self.tell(LOOK)\n", "            pass\n"),),
        tests=("tests/runtime/test_outages.py",),
        backends="redis",
    ),
    Mutant(
        name="the owner of a lease in Redis",
        file="adapters/redis/scripts.py",
        edits=(
            (
                "then return 0 end\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
                "then return 1 end\nredis.call('PEXPIRE', KEYS[1], ARGV[2])",
            ),
        ),
        tests=("tests/runtime/test_leases.py",),
        backends="redis",
    ),
    Mutant(
        name="the queue that knows whether it is read",
        file="adapters/redis/scripts.py",
        edits=(("if length == 0 then return 'not_streaming' end\n", ""),),
        tests=("tests/runtime/test_messages.py",),
        backends="redis",
    ),
)


def main() -> None:
    console = Console()
    caught_count = 0
    for mutant in track(MUTANTS, console=Console(stderr=True), description="mutants"):
        killers = caught_by(mutant)
        caught_count += bool(killers)
        verdict = f"caught by {killers[0]}" if killers else "NOT CAUGHT"
        console.print(f"without {mutant.name}: {verdict}", soft_wrap=True)
    console.print(f"{caught_count} of {len(MUTANTS)} caught")
    sys.exit(0 if caught_count == len(MUTANTS) else 1)


def caught_by(mutant: Mutant) -> list[str]:
    """The tests that fail in a copy of the tree in which the safeguard is missing."""
    with tempfile.TemporaryDirectory(prefix="headway-mutant-") as folder:
        copy = Path(folder, "tree")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".*cache*"))
        path = copy / "src" / "headway" / mutant.file
        text = path.read_text()
        for old, new in mutant.edits:
            if text.count(old) != 1:
                sys.exit(f"{mutant.file} must hold this once: {old!r}")
            text = text.replace(old, new)
        path.write_text(text)
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
                f"--backends={mutant.backends}", *mutant.tests,
            ],
            cwd=copy, env=_environment(copy), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            sys.exit(f"the tests of {mutant.name!r} cannot be run:\n{done.stdout}{done.stderr}")
        return re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, flags=re.MULTILINE)


def _environment(copy: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(copy / "src")}


if __name__ == "__main__":
    main()
