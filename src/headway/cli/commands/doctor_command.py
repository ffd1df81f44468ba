"""`headway doctor`: check the database for violations of headway's guarantees."""

import json as jsonlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final

from cyclopts import Parameter
from rich.console import Console
from rich.progress import Progress

from headway.bootstrap import SystemClock, display_urls, open_readers
from headway.cli.commands.database_urls import find_database_urls
from headway.cli.options import DatabaseAppOption, JsonOption
from headway.core.doctor.finding import Finding, Severity
from headway.services.upkeep.examination import DoctorProgress, examine

EXIT_VIOLATIONS: Final = 1
FindingsJsonOption = Annotated[
    JsonOption,
    Parameter(help="Print JSON, one object per line: each finding, and last the summary."),
]


async def doctor(*, app: DatabaseAppOption = None, json: FindingsJsonOption = False) -> int:
    """Check the database, and print each violation. Return exit code 1 if there are any."""
    progress = DoctorProgress()
    counts: Counter[Severity] = Counter()
    urls = find_database_urls("doctor", app)
    async with open_readers(urls) as readers:
        with _open_progress_bar(progress) as on_page:
            async for finding in examine(readers.doctor, SystemClock(), progress, on_page):
                counts[finding.severity] += 1
                print(jsonlib.dumps(_finding_fields(finding)) if json else _format_finding(finding))
    if json:
        print(jsonlib.dumps(_summary_fields(progress, counts)))
    else:
        print(f"{_summary(progress, counts)}\ndatabase: {display_urls(urls)}")
    return EXIT_VIOLATIONS if counts[Severity.VIOLATION] else 0


def _finding_fields(finding: Finding) -> dict[str, str]:
    """Return the JSON fields of a finding, under their documented names."""
    return {
        "weight": finding.severity,
        "promise": finding.promise,
        "subject": finding.subject,
        "sentence": finding.sentence,
    }


def _format_finding(finding: Finding) -> str:
    prefix = "note, " if finding.severity is Severity.NOTE else ""
    return f"{prefix}{finding.promise}, {finding.subject}: {finding.sentence}"


def _summary_fields(progress: DoctorProgress, counts: Counter[Severity]) -> dict[str, int]:
    return {
        "violation_count": counts[Severity.VIOLATION],
        "note_count": counts[Severity.NOTE],
        "run_count": progress.run_count,
        "event_count": progress.event_count,
        "lane_count": progress.lane_count,
    }


def _summary(progress: DoctorProgress, counts: Counter[Severity]) -> str:
    violation_count, note_count = counts[Severity.VIOLATION], counts[Severity.NOTE]
    violations = _format_count(violation_count, "violation") if violation_count else "no violations"
    notes = f", {_format_count(note_count, 'note')}" if note_count else ""
    checked = ", ".join(
        (
            _format_count(progress.run_count, "run"),
            _format_count(progress.event_count, "event"),
            _format_count(progress.lane_count, "lane"),
        )
    )
    return f"{violations} found{notes}; checked: {checked}"


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@contextmanager
def _open_progress_bar(progress: DoctorProgress) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal, and yield a function that redraws it.

    The bar is removed when the `with` block ends.
    """
    console = Console(stderr=True)
    with Progress(
        console=console,
        transient=True,
        disable=not console.is_terminal,
        # On a terminal, printed lines go above the bar.
        redirect_stdout=sys.stdout.isatty(),
    ) as bar:
        task = bar.add_task("checking", total=None)
        yield lambda: bar.update(task, completed=progress.done, total=progress.total)
