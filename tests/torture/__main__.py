"""`python -m tests.torture [name …] [--backends …] [--full] [--record]`: count violations."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.servers.report import family_of
from tests.torture.claims import Size, Step, torture
from tests.torture.engines import engines
from tests.torture.failover import fail_over
from tests.torture.hundred import MEMORY, hundred, hundred_in_memory
from tests.torture.machines import flows, machines
from tests.torture.pairs import PAIRS
from tests.torture.places import PLACES
from tests.torture.record import RECORD, record
from tests.torture.replay import Findings
from tests.torture.steering import steering, stopping

ENGINES: Final = {"process_count": 3, "key_count": 200}
SHORT: Final = {
    "claims": Size(run_count=2_000),
    "kills": Size(run_count=400_000, kill_count=10),
    "failover": Size(run_count=400_000, failover_count=2, process_count=4),
    "hundred": Size(run_count=10),
    "engines": Size(run_count=100, kill_count=10, pause_count=4, deadly_count=2, **ENGINES),
    "machines": Size(run_count=20),
    "flows": Size(run_count=2_000),
    "steering": Size(run_count=0, kill_count=4, failover_count=1),
    "stopping": Size(run_count=60, pause_count=4, **ENGINES),
}
FULL: Final = {
    "claims": Size(run_count=20_000),
    "kills": Size(run_count=400_000, kill_count=200),
    "failover": Size(run_count=400_000, failover_count=10, process_count=4),
    "hundred": Size(run_count=50),
    "engines": Size(run_count=150, kill_count=300, pause_count=100, deadly_count=20, **ENGINES),
    "machines": Size(run_count=500),
    "flows": Size(run_count=10_000),
    "steering": Size(run_count=0, kill_count=48, failover_count=12),
    "stopping": Size(run_count=100, pause_count=50, **ENGINES),
}
WHERE: Final = {
    "claims": tuple(PLACES),
    "kills": tuple(PLACES),
    "failover": tuple(PAIRS),
    "hundred": (*PLACES, MEMORY),
    "engines": ("sqlite", "postgres"),
    "machines": (*PLACES, MEMORY),
    "flows": (MEMORY,),
    "steering": ("sqlite", "mariadb"),
    "stopping": ("sqlite", "mariadb"),
}
HEADINGS: Final = [f"{name} on {place}" for name, places in WHERE.items() for place in places]
COLUMNS: Final = (
    "runs", "accepted", "told", "events", "slots_held_max", "pauses_in_a_write", "overtaken",
    "poisoned", "kills_in_flight", "ran_on_ms_max", "lost", "unfinished", "ended_twice",
    "executed_twice", "two_of_a_key", "above_the_limit", "out_of_order", "gaps", "stale_writes",
    "stale_words", "unclaimed", "two_at_work", "ran_on", "leaked", "outages", "woke_ms_p99",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    place: str
    size: Size
    findings: Findings
    seconds: float

    @property
    def heading(self) -> str:
        return f"{self.name} on {self.place}"

    def figures(self) -> dict[str, str]:
        size, findings = self.size, self.findings
        figures = {"kills": size.kill_count, "pauses": size.pause_count}
        figures |= {"failovers": size.failover_count}
        figures |= {column: getattr(findings, column) for column in COLUMNS}
        figures |= {"faults": len(findings.faults)}
        return {word.replace("_", " "): f"{count:,}" for word, count in figures.items()}


def main() -> None:
    wanted = _arguments()
    sizes = FULL if wanted.full else SHORT
    results = []
    with Progress(console=Console(stderr=True)) as progress:
        for name, place in _chosen(wanted):
            results.append(_run(name, place, sizes[name], progress))
            if wanted.record:
                record(results[-1].heading, results[-1].figures(), order=HEADINGS)
    Console().print(_table(results))
    for result in results:
        for fault in sorted(set(result.findings.faults)):
            print(f"{result.heading}: {fault}")
    violation_count = sum(result.findings.violations for result in results)
    print(f"{violation_count} violations")
    sys.exit(1 if violation_count else 0)


def _chosen(wanted: argparse.Namespace) -> list[tuple[str, str]]:
    return [
        (name, place)
        for name in wanted.names
        for place in WHERE[name]
        if family_of(place) in wanted.backends.split(",")
    ]


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
    if name == "flows":
        return flows(size.run_count)
    if place == MEMORY:
        return asyncio.run(hundred_in_memory(size.run_count, step))
    with PLACES[place]() as urls:
        if name == "stopping":
            return stopping(urls, size, step)
        return asyncio.run(_of_store(name, urls, size, step))


async def _of_store(name: str, urls: Sequence[str], size: Size, step: Step) -> Findings:
    match name:
        case "hundred":
            return await hundred(urls, size.run_count, step)
        case "engines":
            return await engines(urls, size, step)
        case "steering":
            return await steering(urls, size, step)
        case _:
            return await torture(urls, size, step)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    names = ", ".join(SHORT)
    parser.add_argument("names", nargs="*", default=list(SHORT), help=f"{names}; default: all")
    parser.add_argument("--backends", default=",".join(PLACES), help="default: all")
    parser.add_argument("--full", action="store_true", help="the long form")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    return parser.parse_args()


def _table(results: Sequence[Result]) -> Table:
    """Return a table with a row per count and a column per result, so that it fits a terminal."""
    table = Table("", *(result.heading for result in results))
    columns = [{"seconds": f"{result.seconds:.0f}"} | result.figures() for result in results]
    for word in columns[0] if columns else ():
        table.add_row(word, *(column[word] for column in columns))
    return table


if __name__ == "__main__":
    main()
