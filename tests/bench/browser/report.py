"""The measurements of the page, as a table and as a part of docs/benchmarks.md."""

from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.browser.measure import GROWTH_MAX, LATENCY_MS_MAX, Seen
from tests.bench.machine import Machine
from tests.bench.page import PAGE, replace_part, table

HEADINGS: Final = ("what", "", "")
INTRODUCTION: Final = f"""\
## The page, while everything moves

The board in Chromium, without a window. What it is shown comes from a stand-in for the server, so
that what is slow is the page: so many active runs, one in a hundred of them running and the others
queued, and so many changes a second, one in twenty of them an end, upon which the next begins and
another is queued. Meanwhile somebody types, opens rows and scrolls.

- **Input**: from the key, the click or the wheel to the frame that shows what came of it.
- **Memory**: the tab's own heap after its rubbish was collected, and all of the processes that draw
  and compute for it. *Before* is when a fifth of the time has gone.
- **Must hold**: 95 of 100 inputs within {LATENCY_MS_MAX:.0f} ms; at the end no more than
  {GROWTH_MAX:.0%} of the memory.
"""


def show_page(console: Console, seen: Seen | None) -> None:
    if seen is None:
        return
    shown = Table(*HEADINGS)
    for row in _rows(seen):
        shown.add_row(*row)
    console.print(shown)


def write_page_part(seen: Seen, machine: Machine, command: str, path: Path = PAGE) -> None:
    lines = [
        INTRODUCTION,
        f"Repeat it with `{command}`.\n",
        *table(("measured on", ""), machine.lines()),
        "",
        *table(HEADINGS, _rows(seen)),
        "",
    ]
    replace_part("page", lines, path=path)


def _rows(seen: Seen) -> list[tuple[str, str, str]]:
    scene = f"{seen.run_count:,} runs, {seen.changes_per_s:,} changes a second"
    return [
        ("scene", scene, f"{seen.duration_s:,.0f} s"),
        ("input, p50 and p95", f"{seen.p50_ms:.0f} ms", f"{seen.p95_ms:.0f} ms"),
        ("input, the slowest", f"{seen.worst_ms:.0f} ms", f"of {seen.input_count:,}"),
        ("changes shown", f"{seen.shown_rate:,.0f} /s", ""),
        ("heap, before and after", _mega(seen.heap_before), _mega(seen.heap_after)),
        ("processes, before and after", _mega(seen.resident_before), _mega(seen.resident_after)),
    ]


def _mega(byte_count: int) -> str:
    return f"{byte_count / 1e6:,.1f} MB"
