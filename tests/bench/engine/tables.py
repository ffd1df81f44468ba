"""The results as tables in the terminal, and as lines of a page."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.engine.goals import Verdict
from tests.bench.engine.order import Work
from tests.bench.engine.results import MEASURES, Result

TITLES: Final[Mapping[Work, str]] = {
    Work.DRAIN: "W2: jobs that do nothing",
    Work.PICKUP: "W3: from the call to the job's first line",
    Work.KEYED: "W4: one at a time per key",
    Work.FLOWS: "W5: flows of ten steps",
    Work.RECOVERY: "W6: 100 jobs of a killed process run again",
    Work.SLEEPERS: "10,000 jobs that sleep",
    Work.PARKED: "10,000 parked tasks",
    Work.IDLE: "10,000 jobs that cannot start",
    Work.STARTUP: "Start-up beside many finished runs",
}


def show(console: Console, results: Sequence[Result], verdicts: Sequence[Verdict]) -> None:
    for work in Work:
        chosen = [result for result in results if result.work is work]
        if not chosen:
            continue
        table = Table(*headings(work), title=TITLES[work], title_justify="left", min_width=50)
        for column in table.columns[2:]:
            column.justify = "right"
        for result in chosen:
            style = "bold" if result.entry.contestant.is_ours else ""
            table.add_row(*cells(result), style=style)
        console.print(table)
    for verdict in verdicts:
        console.print(str(verdict), style="" if verdict.holds else "red")


def headings(work: Work) -> tuple[str, ...]:
    return ("system", "store", *(measure.value for measure in MEASURES[work]))


def cells(result: Result) -> tuple[str, ...]:
    entry = result.entry
    title = entry.contestant.title
    return (
        f"{title}, {entry.detail}" if entry.detail else title,
        entry.contestant.store_title,
        *(result.format_measure(measure) for measure in MEASURES[result.work]),
    )
