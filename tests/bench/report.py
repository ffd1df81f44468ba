"""The measurements for people (a table, a page) and for programs (one object per line)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.browser.measure import Seen
from tests.bench.engine.results import Result
from tests.bench.figures import Figure, Series
from tests.bench.machine import Machine
from tests.bench.page import PAGE, replace_part, table
from tests.bench.places import Place, Places
from tests.bench.plan import GROWTH_RATIO_MIN, LATENCY_MS_MAX, RATIO_AIM, RATIO_MIN, What
from tests.bench.server.measure import Served

HEADINGS: Final = ("database", "what", "callers", "headway", "raw driver", "ratio", "CPU, µs each")
GROWTH_HEADINGS: Final = (
    *("database", "life cycles beside", "callers"),
    *("many finished", "few finished", "ratio", "CPU, µs each"),
)
INTRODUCTION: Final = f"""\
## The store, beside the raw driver

What the store does, beside what the raw driver does for the same rows in the same run. The ratio
is what counts: the rates are those of one machine on one day.

- A **life cycle** is submit → claim → succeed: three transitions, each with its event, of a run
  with a key of its own. One task claims for all callers, up to 1,000 runs at a time, as an engine
  does.
- **Callers** are tasks of one process, each waiting for its answer before it goes on. What they
  send while a commit is under way is committed together.
- A **claim** is one caller's, for one run. No slot is given back while claims are measured.
- The **raw driver** runs the statements that the store was seen to send (rows, guards, events and
  counters, without any of the reads), on the same tables, in transactions of as many runs as there
  are callers, each in the driver's quickest way: `executemany` of `sqlite3`; COPY and one array per
  column with `asyncpg`; `executemany` and a join with the values with `aiomysql`. Its rows are made
  before the clock starts.
- Every figure is the median of several rounds (lowest-highest). Rounds alternate raw, headway, raw
  and so on, and the ratio is taken within each. Each measurement has a new process and a new
  database.
- **CPU** is that of the measuring process, headway / raw; a server's own is not in it.
- **Must hold**: life cycles with 1,000 callers at {RATIO_MIN:.0%} or more of the raw driver's rate
  on SQLite and PostgreSQL (the aim is {RATIO_AIM:.0%}); half of a single caller's submits in less
  than {LATENCY_MS_MAX:g} ms on SQLite (process); the rate beside 1,000,000 finished runs at
  {GROWTH_RATIO_MIN:.0%} or more of that beside 1,000. What does not hold is marked ✗, and
  `python -m tests.bench --check` then fails.
"""


def show(console: Console, figures: Sequence[Figure]) -> None:
    for is_growth in (False, True):
        chosen = [figure for figure in figures if (figure.what is What.GROWTH) == is_growth]
        if not chosen:
            continue
        table = Table(*(GROWTH_HEADINGS if is_growth else HEADINGS))
        for column in table.columns[2:]:
            column.justify, column.overflow = "right", "fold"
        for figure in chosen:
            style = "" if figure.miss is None else "red"
            table.add_row(*_cells(figure), style=style)
        console.print(table)


def print_json(figure: Figure | Result | Served | Seen) -> None:
    print(json.dumps(figure.as_json()), flush=True)


def write_store_part(
    figures: Sequence[Figure], places: Places, machine: Machine, command: str, path: Path = PAGE
) -> None:
    lines = [
        INTRODUCTION,
        f"Repeat it with `{command}`.\n",
        *table(("measured on", ""), [*machine.lines(), *places.versions.items()]),
        "",
        *table(("database", "a commit is kept by"), [_settings(p) for p in places.all]),
        "",
        *_sections(figures),
    ]
    replace_part("store", lines, path=path)


def _settings(place: Place) -> tuple[str, str]:
    return place.title, place.settings


def _sections(figures: Sequence[Figure]) -> list[str]:
    rates = [_cells(figure) for figure in figures if figure.what is not What.GROWTH]
    growth = [_cells(figure) for figure in figures if figure.what is What.GROWTH]
    lines: list[str] = []
    if rates:
        lines += ["### Rates and latency\n", *table(HEADINGS, rates), ""]
    if growth:
        lines += [
            "### Growth\n",
            "Life cycles beside many finished runs, and beside few. The finished runs were made",
            "by the raw driver, through all three transitions and with all their events. Where",
            "keys come back, the index of a key's runs is written in as many places as there are",
            "keys, and grows with its history: the raw driver pays for that alike, so only the",
            "rate with new keys is held to the limit.\n",
            *table(GROWTH_HEADINGS, growth),
            "",
        ]
    return lines


def _cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.title,
        figure.detail,
        f"{figure.callers:,}",
        _spread(figure.headway, figure),
        _spread(figure.reference, figure),
        _ratio(figure),
        _cpu(figure),
    )


def _spread(series: Series, figure: Figure) -> str:
    if figure.unit == "ms":
        return f"{series.median:.2f} ms ({series.low:.2f}-{series.high:.2f})"
    return f"{series.median:,.0f}/s ({series.low:,.0f}-{series.high:,.0f})"


def _ratio(figure: Figure) -> str:
    text, ratio = "—", figure.ratio
    if figure.unit == "1/s":
        text = f"{ratio.median:.0%} ({ratio.low:.0%}-{ratio.high:.0%})"
    return text if figure.miss is None else f"{text} ✗"


def _cpu(figure: Figure) -> str:
    return f"{figure.headway_cpu_us.median:,.0f} / {figure.reference_cpu_us.median:,.0f}"
