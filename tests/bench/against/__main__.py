"""`python -m tests.bench.against REV`: this tree beside an earlier commit, in alternating rounds.

The speed of a machine changes from minute to minute, so two figures are comparable only if they are
measured in turns. Each round runs every workload once with each tree, in a new process and on a new
database. The ratio is that of the medians: 1.05 means that this tree is 5 % faster.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.places import ROOT, Place, open_places

LOAD: Final = Path(__file__).with_name("load.py")
WORKLOADS: Final = ("drain", "single", "reports", "children", "submit")
STORES: Final = ("sqlite", "postgres")


def main(arguments: Sequence[str]) -> None:
    options = _parser().parse_args(arguments)
    table = Table("store", "workload", "earlier", "this tree", "ratio", "single rounds")
    with check_out(options.revision) as earlier, open_places(options.store or STORES) as places:
        trees = {"earlier": earlier / "src", "this": ROOT / "src"}
        for place in places.all:
            if not place.is_usual:
                continue
            for workload in options.workload or WORKLOADS:
                rates = measure(place, workload, trees, rounds=options.rounds)
                table.add_row(place.title, workload, *describe(rates))
    Console(width=120).print(table)


def measure(
    place: Place, workload: str, trees: Mapping[str, Path], *, rounds: int
) -> dict[str, list[float]]:
    """Return the rates of each tree, in runs per second."""
    rates: dict[str, list[float]] = {name: [] for name in trees}
    for number in range(rounds):
        # Each tree is first in half of the rounds.
        for name in sorted(trees, reverse=number % 2 == 1):
            with place.new_database() as url:
                rates[name].append(run_load(trees[name], workload, url))
    return rates


def run_load(tree: Path, workload: str, url: str) -> float:
    environment = os.environ | {"PYTHONPATH": str(tree)}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(LOAD), workload, url]
        process = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
    if process.returncode:
        sys.exit(f"{workload} failed with {tree}:\n{process.stderr}")
    return float(process.stdout.split()[-1])


def describe(rates: Mapping[str, Sequence[float]]) -> list[str]:
    earlier, this = rates["earlier"], rates["this"]
    rounds = " ".join(f"{new / old:.2f}" for old, new in zip(earlier, this, strict=True))
    ratio = median(this) / median(earlier)
    return [f"{median(earlier):,.0f}/s", f"{median(this):,.0f}/s", f"{ratio:.2f}", rounds]


@contextmanager
def check_out(revision: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="headway-against-") as folder:
        tree = Path(folder, "tree")
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(tree), revision],
            cwd=ROOT,
            check=True,
        )
        try:
            yield tree
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True
            )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.against", description=__doc__)
    parser.add_argument("revision", help="the earlier commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", action="append", choices=STORES, help="default: all of them")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="default: all")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
