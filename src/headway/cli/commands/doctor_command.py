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

from headway.bootstrap import SystemClock, display_urls, open_readers
from headway.cli.commands.database_urls import AppOption, find_database_urls
from headway.cli.output.printing import JsonOption
from headway.core.doctor.finding import Finding, Severity
from headway.services.upkeep.examination import DoctorProgress, examine

EXIT_VIOLATIONS: Final = 1
FindingsJsonOption = Annotated[
    JsonOption,
    Parameter(help="Print JSON, an object on every line: each finding, and last the summary."),
]


async def doctor(*, app: AppOption = None, json: FindingsJsonOption = False) -> int:
    """Check every promise on the database, and name what breaks one; changes nothing.

    Others may go on working meanwhile. It ends with 0 when all is well, with 1 when a promise is
    broken (a line for each place), with 2 when there is nothing that it could read (no such
    database, no schema of headway's), and with 5 when the database does not answer.
    """
    checked = DoctorProgress()
    counts: Counter[Severity] = Counter()
    urls = find_database_urls("doctor", app)
    async with open_readers(urls) as readers:
        with _open_progress_bar(checked) as on_page:
            async for finding in examine(readers.doctor, SystemClock(), checked, on_page):
                counts[finding.severity] += 1
                print(jsonlib.dumps(asdict(finding)) if json else _format_finding(finding))
    if json:
        print(jsonlib.dumps(_summary_fields(checked, counts)))
    else:
        print(f"{_summary(checked, counts)}\ndatabase: {display_urls(urls)}")
    return EXIT_VIOLATIONS if counts[Severity.VIOLATION] else 0


def _format_finding(finding: Finding) -> str:
    mark = "note, " if finding.severity is Severity.NOTE else ""
    return f"{mark}{finding.promise}, {finding.subject}: {finding.sentence}"


def _summary_fields(checked: DoctorProgress, counts: Counter[Severity]) -> dict[str, int]:
    return {
        "violation_count": counts[Severity.VIOLATION],
        "note_count": counts[Severity.NOTE],
        "run_count": checked.run_count,
        "event_count": checked.event_count,
        "lane_count": checked.lane_count,
    }


def _summary(checked: DoctorProgress, counts: Counter[Severity]) -> str:
    broken, noted = counts[Severity.VIOLATION], counts[Severity.NOTE]
    verdict = f"{_format_count(broken, 'violation')} found" if broken else "all is well"
    notes = f", {_format_count(noted, 'note')}" if noted else ""
    seen = ", ".join(
        (
            _format_count(checked.run_count, "run"),
            _format_count(checked.event_count, "event"),
            _format_count(checked.lane_count, "lane"),
        )
    )
    return f"{verdict}{notes}; checked: {seen}"


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@contextmanager
def _open_progress_bar(checked: DoctorProgress) -> Iterator[Callable[[], None]]:
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
