"""The measurements of the server, as a table and as a part of the page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.machine import Machine
from tests.bench.page import PAGE, replace_part, table
from tests.bench.server.measure import FAN_OUT_RATIO_MIN, SUBMIT_RATIO_MIN, Served

HEADINGS: Final = ("what", "headway", "the framework alone", "ratio")
INTRODUCTION: Final = f"""\
## The server, beside the bare framework

`headway serve` on SQLite, beside FastAPI on uvicorn that checks the same body, stores nothing and
answers as many bytes. The clients run on the same machine and take their share of it.

- **Durable submits**: each is committed before it is answered. The lane is paused, so that nothing
  else is at work.
- **Events**: all clients listen to one stream while runs are submitted; every client receives every
  event, in order.
- **Must hold**: submits over 50 connections at {SUBMIT_RATIO_MIN:.0%} or more of the framework
  alone, deliveries at {FAN_OUT_RATIO_MIN:.0%} or more.
"""


def show_server(console: Console, figures: Sequence[Served]) -> None:
    if not figures:
        return
    shown = Table(*HEADINGS)
    for figure in figures:
        shown.add_row(*_cells(figure), style="" if figure.miss is None else "red")
    console.print(shown)


def write_server_part(
    figures: Sequence[Served], machine: Machine, command: str, path: Path = PAGE
) -> None:
    lines = [
        INTRODUCTION,
        f"Repeat it with `{command}`.\n",
        *table(("measured on", ""), machine.lines()),
        "",
        *table(HEADINGS, [_cells(figure) for figure in figures]),
        "",
    ]
    replace_part("server", lines, path=path)


def _cells(figure: Served) -> tuple[str, ...]:
    bare = "" if figure.bare is None else f"{figure.bare:,.0f} {figure.unit}"
    mark = "" if figure.miss is None else " ✗"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}{mark}"
    return (figure.what, f"{figure.headway:,.0f} {figure.unit}", bare, ratio)
