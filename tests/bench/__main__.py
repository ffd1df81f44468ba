"""`python -m tests.bench`: measure, show, and on demand judge and record."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench.figures import Figure, misses
from tests.bench.machine import this_machine
from tests.bench.places import FAMILIES, Places, open_places
from tests.bench.plan import FULL, QUICK, Scale, What
from tests.bench.profiled import show_profile
from tests.bench.report import print_json, show, write_page
from tests.bench.rounds import measure, step_count

USUAL: Final = (What.SUBMITS, What.CLAIMS, What.CYCLES, What.LATENCY)


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    scale = QUICK if asked.quick else FULL
    notes = Console(stderr=True, highlight=False)
    if asked.profile is not None:
        with open_places({asked.profile}) as places:
            show_profile(_console(), places.all[0], scale)
        return 0
    whats = list(dict.fromkeys([*asked.what, *([What.GROWTH] if asked.grow else [])]))
    machine = this_machine()
    with open_places(asked.only) as places:
        for reason in places.missing:
            notes.print(f"not measured: {reason}")
        figures = _measure(places, whats, scale, notes, is_json=asked.json)
        if not asked.json:
            show(_console(), figures)
        if asked.record:
            command = " ".join(["python -m tests.bench", *arguments])
            write_page(figures, places, machine, command)
    missed = misses(figures)
    for sentence in missed:
        notes.print(f"missed: {sentence}")
    return 1 if asked.check and missed else 0


def _measure(
    places: Places, whats: Sequence[What], scale: Scale, notes: Console, *, is_json: bool
) -> list[Figure]:
    figures = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=notes, disable=not notes.is_terminal) as progress:
        total = step_count(places.all, whats, scale)
        bar = progress.add_task("", total=total, completed=-1)

        def step(description: str) -> None:
            progress.update(bar, description=description, advance=1)

        for figure in measure(places.all, whats, scale, step):
            figures.append(figure)
            if is_json:
                print_json(figure)
        progress.update(bar, description="done", advance=1)
    return figures


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=140)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, callers and seconds")
    parser.add_argument(
        "--only",
        type=_families,
        default=FAMILIES,
        metavar="NAMES",
        help=f"some of {','.join(FAMILIES)}",
    )
    parser.add_argument(
        "--what",
        type=_whats,
        default=USUAL,
        metavar="NAMES",
        help=f"some of {','.join(What)}; default: {','.join(USUAL)}",
    )
    parser.add_argument("--grow", action="store_true", help="also beside a million finished runs")
    parser.add_argument("--json", action="store_true", help="one object per line on stdout")
    parser.add_argument("--record", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--check", action="store_true", help="exit 1 when a figure must be better")
    parser.add_argument(
        "--profile",
        choices=FAMILIES,
        help="instead of the figures: where the time of a life cycle goes",
    )
    return parser


def _families(text: str) -> tuple[str, ...]:
    return tuple(_chosen(text, FAMILIES))


def _whats(text: str) -> tuple[What, ...]:
    return tuple(What(name) for name in _chosen(text, tuple(What)))


def _chosen(text: str, known: Sequence[str]) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no such name: {', '.join(unknown)}; there are {', '.join(known)}"
        )
    return names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
