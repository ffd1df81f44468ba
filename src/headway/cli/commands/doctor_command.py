"""`headway doctor`"""

import json as jsonlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Final

from cyclopts import Parameter
from rich.console import Console
from rich.progress import Progress

from headway.bootstrap import SystemClock, display, opened_readers
from headway.cli.commands.database_urls import App, own_database
from headway.cli.output.printing import Json
from headway.core.doctor.finding import Finding, Weight
from headway.services.upkeep.examination import Checked, examine

EXIT_VIOLATIONS: Final = 1
Findings = Annotated[
    Json, Parameter(help="Print JSON, an object on every line: each finding, and last the summary.")
]


async def doctor(*, app: App = None, json: Findings = False) -> int:
    """Check every promise on the database, and name what breaks one; changes nothing.

    Others may go on working meanwhile. It ends with 0 when all is well, with 1 when a promise is
    broken (a line for each place), with 2 when there is nothing that it could read (no such
    database, no schema of headway's), and with 5 when the database does not answer.
    """
    checked = Checked()
    counts: Counter[Weight] = Counter()
    urls = own_database("doctor", app)
    async with opened_readers(urls) as readers:
        with _bar(checked) as on_page:
            async for finding in examine(readers.doctor, SystemClock(), checked, on_page):
                counts[finding.weight] += 1
                print(jsonlib.dumps(asdict(finding)) if json else _line(finding))
    if json:
        print(jsonlib.dumps(_figures(checked, counts)))
    else:
        print(f"{_summary(checked, counts)}\ndatabase: {display(urls)}")
    return EXIT_VIOLATIONS if counts[Weight.VIOLATION] else 0


def _line(finding: Finding) -> str:
    mark = "note, " if finding.weight is Weight.NOTE else ""
    return f"{mark}{finding.promise}, {finding.place}: {finding.sentence}"


def _figures(checked: Checked, counts: Counter[Weight]) -> dict[str, int]:
    return {
        "violation_count": counts[Weight.VIOLATION],
        "note_count": counts[Weight.NOTE],
        "run_count": checked.run_count,
        "event_count": checked.event_count,
        "lane_count": checked.lane_count,
    }


def _summary(checked: Checked, counts: Counter[Weight]) -> str:
    broken, noted = counts[Weight.VIOLATION], counts[Weight.NOTE]
    verdict = f"{_counted(broken, 'violation')} found" if broken else "all is well"
    notes = f", {_counted(noted, 'note')}" if noted else ""
    seen = ", ".join(
        (
            _counted(checked.run_count, "run"),
            _counted(checked.event_count, "event"),
            _counted(checked.lane_count, "lane"),
        )
    )
    return f"{verdict}{notes}; checked: {seen}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@contextmanager
def _bar(checked: Checked) -> Iterator[Callable[[], None]]:
    """On a terminal, a bar that is gone at the end; to be told when `checked` has moved."""
    console = Console(stderr=True)
    with Progress(
        console=console,
        transient=True,
        disable=not console.is_terminal,
        # What is printed goes above the bar, unless it goes somewhere else altogether.
        redirect_stdout=sys.stdout.isatty(),
    ) as progress:
        task = progress.add_task("checking", total=None)
        yield lambda: progress.update(task, completed=checked.done, total=checked.total)
