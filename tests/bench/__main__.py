"""`python -m tests.bench`: measure, print, and on request check and record."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench import plan
from tests.bench.browser import measure as browser
from tests.bench.browser.measure import Seen, measure_page
from tests.bench.browser.report import show_page, write_page_part
from tests.bench.engine import contestants
from tests.bench.engine.contestants import STORES
from tests.bench.engine.field import open_field
from tests.bench.engine.goals import Verdict, verdicts
from tests.bench.engine.order import Work
from tests.bench.engine.report import write_engine_part
from tests.bench.engine.results import Result
from tests.bench.engine.tables import show as show_results
from tests.bench.figures import Figure, misses
from tests.bench.machine import Machine, this_machine
from tests.bench.places import FAMILIES, Places, open_places
from tests.bench.plan import What
from tests.bench.profiled import show_profile
from tests.bench.report import print_json, show, write_store_part
from tests.bench.rounds import measure, step_count
from tests.bench.server import measure as server
from tests.bench.server.measure import Served, measure_server
from tests.bench.server.report import show_server, write_server_part
from tests.bench.steering import NAME as STEERING
from tests.bench.steering import STEP_COUNT as STEERING_STEP_COUNT
from tests.bench.steering import (
    SteeringFigures,
    measure_steering,
    show_steering,
    write_steering_part,
)

USUAL: Final = (What.SUBMITS, What.CLAIMS, What.CYCLES, What.LATENCY)
ALL_STORES: Final = (*FAMILIES, "redis")
SERVER: Final = "server"

T = TypeVar("T", Figure, Result, Served)


@dataclass(slots=True)
class Measured:
    figures: list[Figure] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    steering: SteeringFigures = field(default_factory=SteeringFigures)
    served: list[Served] = field(default_factory=list)
    seen: Seen | None = None
    excuses: list[str] = field(default_factory=list)

    @property
    def verdicts(self) -> list[Verdict]:
        return verdicts(self.results)

    @property
    def misses(self) -> list[str]:
        unheld = [str(verdict) for verdict in self.verdicts if not verdict.holds]
        too_slow = [figure.miss for figure in self.served if figure.miss is not None]
        of_page = [] if self.seen is None else self.seen.misses
        return [*misses(self.figures), *unheld, *too_slow, *of_page]


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    notes = Console(stderr=True, highlight=False)
    if options.profile is not None:
        with open_places({options.profile}) as places:
            scale = plan.QUICK if options.quick else plan.FULL
            show_profile(_console(), places.all[0], scale)
        return 0
    machine = this_machine()
    wanted = options.only
    whats = list(dict.fromkeys([*wanted.whats, *([What.GROWTH] if options.grow else [])]))
    with open_places(wanted.stores) as places:
        for reason in places.missing:
            notes.print(f"not measured: {reason}")
        measured = _measure(options, whats, places, notes)
        if not options.json:
            show(_console(), measured.figures)
            show_results(_console(), measured.results, measured.verdicts)
            show_steering(_console(), measured.steering)
            show_server(_console(), measured.served)
            show_page(_console(), measured.seen)
        if options.record:
            command = " ".join(["python -m tests.bench", *arguments])
            _record(measured, places, machine, command)
    for sentence in measured.misses:
        notes.print(f"missed: {sentence}")
    return 1 if options.check and measured.misses else 0


def _record(measured: Measured, places: Places, machine: Machine, command: str) -> None:
    """Record each part of the page that was measured; the others stay as they are."""
    if measured.figures:
        write_store_part(measured.figures, places, machine, command)
    if measured.steering.steered:
        write_steering_part(measured.steering, machine, command)
    if measured.served:
        write_server_part(measured.served, machine, command)
    if measured.seen is not None:
        write_page_part(measured.seen, machine, command)
    if measured.results:
        write_engine_part(
            measured.results,
            measured.verdicts,
            measured.excuses,
            places=places,
            machine=machine,
            command=command,
        )


def _measure(
    options: argparse.Namespace, whats: Sequence[What], places: Places, notes: Console
) -> Measured:
    measured = Measured()

    def excuse(reason: str) -> None:
        measured.excuses.append(reason)
        notes.print(f"not measured: {reason}")

    scale = plan.QUICK if options.quick else plan.FULL
    opened = open_field(
        options.only.works,
        places.all,
        stores=options.only.stores,
        is_ours_alone=options.ours,
        scale=contestants.QUICK if options.quick else contestants.FULL,
        excuse=excuse,
    )
    with opened as races, _progress(notes) as progress:
        has_server = options.only.has_server
        total = step_count(places.all, whats, scale) + races.step_count
        total += STEERING_STEP_COUNT if options.only.has_steering else 0
        total += server.STEP_COUNT if has_server else 0
        total += browser.STEP_COUNT if options.only.has_page else 0
        bar = progress.add_task("", total=total, completed=-1)

        def step(description: str) -> None:
            progress.update(bar, description=description, advance=1)

        found = measure(places.all, whats, scale, step)
        measured.figures = _gathered(found, print_json if options.json else None)
        results = races.results(step, excuse)
        measured.results = _gathered(results, print_json if options.json else None)
        if options.only.has_steering:
            measured.steering = measure_steering(is_quick=options.quick, step=step)
        if has_server:
            served = measure_server(server.QUICK if options.quick else server.FULL, step)
            measured.served = _gathered(served, print_json if options.json else None)
        if options.only.has_page:
            scale_of_page = browser.QUICK if options.quick else browser.FULL
            measured.seen = measure_page(scale_of_page, step)
            if options.json:
                print_json(measured.seen)
        progress.update(bar, description="done", advance=1)
    return measured


def _gathered(items: Iterable[T], report: Callable[[T], None] | None) -> list[T]:
    gathered = []
    for item in items:
        gathered.append(item)
        if report is not None:
            report(item)
    return gathered


def _progress(notes: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=notes, disable=not notes.is_terminal)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=140)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The selection made by `--only`."""

    stores: tuple[str, ...] = ALL_STORES
    whats: tuple[What, ...] = USUAL
    works: tuple[Work, ...] = tuple(Work)
    has_steering: bool = True
    has_server: bool = True
    has_page: bool = True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, jobs and seconds")
    parser.add_argument(
        "--only",
        type=_wanted,
        default=Wanted(),
        metavar="NAMES",
        help=(
            f"some stores ({', '.join(ALL_STORES)}), some measurements of the store "
            f"({', '.join(What)}), of the engine ({', '.join(Work)}), {STEERING}, {SERVER}, "
            f"{browser.NAME}, or several"
        ),
    )
    parser.add_argument("--ours", action="store_true", help="headway alone, without other systems")
    parser.add_argument("--grow", action="store_true", help="also beside a million finished runs")
    parser.add_argument("--json", action="store_true", help="one object per line on stdout")
    parser.add_argument("--record", action="store_true", help="write docs/benchmarks.md and .svg")
    parser.add_argument("--check", action="store_true", help="exit 1 when a figure must be better")
    parser.add_argument(
        "--profile",
        choices=FAMILIES,
        help="instead of the figures: where the time of a life cycle goes",
    )
    return parser


def _wanted(text: str) -> Wanted:
    names = [name.strip() for name in text.split(",")]
    known = (*ALL_STORES, *What, *Work, STEERING, SERVER, browser.NAME)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no such name: {', '.join(unknown)}; there are {', '.join(known)}"
        )
    stores = tuple(name for name in ALL_STORES if name in names)
    whats = tuple(what for what in What if what in names)
    works = tuple(work for work in Work if work in names)
    beside = (STEERING in names, SERVER in names, browser.NAME in names)
    if not whats and not works and not any(beside):
        whats, works = Wanted().whats, Wanted().works
    stores = stores or ALL_STORES
    if not whats and not works:
        return Wanted((), (), (), *beside)
    if not whats:  # The engine is not measured there.
        stores = tuple(store for store in stores if store in STORES)
    return Wanted(stores, whats, works, *beside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
