"""`python -m tests.torture [name …] [--backends …] [--full] [--record]`: what must never happen."""

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.services.report import family_of
from tests.torture.claims import Size, Step, torture
from tests.torture.failover import fail_over
from tests.torture.hundred import MEMORY, hundred, hundred_in_memory
from tests.torture.machines import machines
from tests.torture.pairs import PAIRS
from tests.torture.places import PLACES
from tests.torture.replay import Findings

SHORT: Final = {
    "claims": Size(run_count=2_000),
    "kills": Size(run_count=400_000, kill_count=10),
    "failover": Size(run_count=400_000, failover_count=2, process_count=4),
    "hundred": Size(run_count=10),
    "machines": Size(run_count=20),
}
FULL: Final = {
    "claims": Size(run_count=20_000),
    "kills": Size(run_count=400_000, kill_count=200),
    "failover": Size(run_count=400_000, failover_count=10, process_count=4),
    "hundred": Size(run_count=50),
    "machines": Size(run_count=500),
}
WHERE: Final = {
    "claims": tuple(PLACES),
    "kills": tuple(PLACES),
    "failover": tuple(PAIRS),
    "hundred": (*PLACES, MEMORY),
    "machines": (*PLACES, MEMORY),
}
RECORD: Final = Path(__file__).parents[2] / "docs" / "torture.md"
HEADER: Final = """# What it survived

Made by `{command}` on {day}, {machine}. `make torture` runs a shorter form.

- **claims**: 8 processes submit, claim and complete runs over 500 keys in a lane limited to 16.
- **kills**: the same, while one process is killed (SIGKILL) and replaced at each of so many random
  moments; leases last 3 s.
- **failover**: 4 processes on a pair of servers that fails over (PostgreSQL: a streaming pair, the
  primary is killed and its standby promoted; MariaDB: `read_only` is switched) and back, so many
  times. Each time the old primary comes back alone, able to write, and must be left alone.
- **hundred**: 100 submissions for one key at the same instant, from 4 processes, so many times: one
  is accepted, the others are told which.
- **machines**: so many random histories, of single commands and of batches each, on the store and
  on a small model of it, which must agree on every answer and on every row.

Afterwards the event stream is replayed and compared with what the processes wrote down themselves.
Every column but the first ones must be 0.

"""
COLUMNS: Final = (
    "runs", "accepted", "told", "events", "slots_held_max", "lost", "unfinished", "ended_twice",
    "executed_twice", "two_of_a_key", "above_the_limit", "out_of_order", "gaps", "stale_writes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    place: str
    size: Size
    findings: Findings
    seconds: float


def main() -> None:
    wanted = _arguments()
    sizes = FULL if wanted.full else SHORT
    with Progress(console=Console(stderr=True)) as progress:
        results = [
            _run(name, place, sizes[name], progress)
            for name in wanted.names
            for place in WHERE[name]
            if family_of(place) in wanted.backends.split(",")
        ]
    Console().print(_table(results))
    for result in results:
        for fault in sorted(set(result.findings.faults)):
            print(f"{result.name} on {result.place}: {fault}")
    if wanted.record:
        _record(results)
    sys.exit(1 if any(result.findings.violations for result in results) else 0)


def _run(name: str, place: str, size: Size, progress: Progress) -> Result:
    bar = progress.add_task(f"{name} on {place}", total=size.fault_count or size.run_count)
    began_s = time.monotonic()

    def step(done_count: int) -> None:
        progress.update(bar, completed=done_count)

    findings = _torture(name, place, size, step)
    print(json.dumps({"torture": name, "on": place} | asdict(findings)), flush=True)
    return Result(name, place, size, findings, time.monotonic() - began_s)


def _torture(name: str, place: str, size: Size, step: Step) -> Findings:
    if name == "failover":
        with PAIRS[place]() as pair:
            return asyncio.run(fail_over(pair, size, step))
    if name == "machines":
        return machines("sqlite-file" if place == "sqlite" else place, size.run_count)
    if place == MEMORY:
        return asyncio.run(hundred_in_memory(size.run_count, step))
    with PLACES[place]() as urls:
        if name == "hundred":
            return asyncio.run(hundred(urls, size.run_count, step))
        return asyncio.run(torture(urls, size, step))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    names = ", ".join(SHORT)
    parser.add_argument("names", nargs="*", default=list(SHORT), help=f"{names}; default: all")
    parser.add_argument("--backends", default=",".join(PLACES), help="default: all")
    parser.add_argument("--full", action="store_true", help="the long form")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    return parser.parse_args()


def _rows(results: Sequence[Result]) -> list[list[str]]:
    """A row per figure and a column per run, so that it fits a terminal."""
    rows = [["", *(f"{result.name} on {result.place}" for result in results)]]
    rows += [["kills", *(str(result.size.kill_count) for result in results)]]
    rows += [["failovers", *(str(result.size.failover_count) for result in results)]]
    rows += [["seconds", *(f"{result.seconds:.0f}" for result in results)]]
    for column in COLUMNS:
        words = column.replace("_", " ")
        rows += [[words, *(f"{getattr(result.findings, column):,}" for result in results)]]
    rows += [["faults", *(str(len(result.findings.faults)) for result in results)]]
    return rows


def _table(results: Sequence[Result]) -> Table:
    headings, *rows = _rows(results)
    table = Table(*headings)
    for row in rows:
        table.add_row(*row)
    return table


def _record(results: Sequence[Result]) -> None:
    command = " ".join(["python -m tests.torture", *sys.argv[1:]])
    machine = (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )
    day = datetime.now(tz=UTC).date().isoformat()
    headings, *rows = _rows(results)
    lines = [_line(headings), _line(["---"] * len(headings)), *map(_line, rows)]
    header = HEADER.format(command=command, day=day, machine=machine)
    RECORD.write_text(header + "\n".join(lines) + "\n")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
