"""Prints answers: tables on a terminal, plain lines in a pipe, and JSON with `--json`."""

import json as jsonlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

STYLES: Final = {
    "Queued": "yellow",
    "Running": "cyan",
    "Done": "green",
    "Failed": "red",
    "Cancelled": "magenta",
    "Rejected": "red",
    "Idle": "dim",
}
TEXT_LENGTH_MAX: Final = 400
ID_LENGTH_MAX: Final = 40
"""The maximum length of an id or name that is not wrapped in the first column of a table."""
TIME_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def make_console() -> Console:
    """Return a console for standard output that interprets no markup in the printed texts."""
    return Console(markup=False, highlight=False, emoji=False)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def print_json(value: Any) -> None:
    """Print a value as JSON in one line, and flush, because the reader may wait for the line."""
    print(jsonlib.dumps(value, ensure_ascii=False), flush=True)


def print_result(value: Any, text: str, *, as_json: bool) -> None:
    """Print the whole answer as JSON, or a short text for people."""
    print_json(value) if as_json else print(text)


def print_list(
    items: Iterable[Any],
    headings: Sequence[str],
    columns: Callable[[Any], Iterable[Any]],
    *,
    empty: str,
    as_json: bool,
) -> None:
    """Print items as a table on a terminal, as lines with tabs in a pipe, or as JSON lines.

    `columns` returns the columns of an item. A terminal shows `empty` if there are no items.
    """
    if as_json:
        for item in items:
            print_json(item)
        return
    rows = [[to_printable(value) for value in columns(item)] for item in items]
    if is_terminal():
        console = make_console()
        table = build_table(headings, rows, width_max=console.width)
        console.print(table if rows else empty)
    else:
        for row in rows:
            print("\t".join(row))


def build_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width_max: int) -> Table:
    """Return a table. Its first column, the id, is not wrapped, so that it can be copied.

    If an id is too long for that, the column is wrapped after all, because rich would crop it.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Each other column needs at least one character and two spaces before it.
    id_length_max = min(ID_LENGTH_MAX, width_max - 3 * (len(headings) - 1))
    is_id_whole = all(cell_len(row[0]) <= id_length_max for row in rows)
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=is_id_whole and number == 0)
    for row in rows:
        table.add_row(*(Text(value, style=STYLES.get(value.split(" (")[0], "")) for value in row))
    return table


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print one line for each field that is not empty."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", [])}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        print(
            f"{name:{width}}  {to_printable(value)}"
            if is_terminal()
            else f"{name}\t{to_printable(value)}"
        )


def print_indented(text: str) -> None:
    """Print a text of several lines, indented."""
    for line in text.splitlines():
        print(f"  {to_printable(line)}")


def to_printable(value: Any) -> str:
    """Return a value as one line that can neither move the cursor nor forge a line (S4)."""
    text = value if isinstance(value, str) else jsonlib.dumps(value, ensure_ascii=False)
    text = "" if value is None else text
    return "".join(_escape_unprintable(character) for character in text)


def _escape_unprintable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def state_label(run: Mapping[str, Any]) -> str:
    """Return the state of a run and its details, in the same words as the web page."""
    match run["status"]:
        case "running" if run["is_waiting"]:
            return "Running (waiting)"
        case "cancelling":
            return "Running (cancelling…)"
        case "timed_out":
            return "Failed (timed out)"
        case "rejected":
            return "Rejected"
        case _:
            return str(run["state"])


def shorten(value: Any) -> str:
    text = to_printable(value)
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 1]}…"


def format_age(instant: str, *, until: str | None = None) -> str:
    """Return the time from `instant` until now or `until`, in one or two units."""
    end = datetime.now(UTC) if until is None else datetime.fromisoformat(until)
    return format_duration((end - datetime.fromisoformat(instant)).total_seconds())


def format_duration(seconds: float) -> str:
    rest = max(0, round(seconds))
    parts = []
    for size, unit in TIME_UNITS:
        if rest >= size:
            parts.append(f"{rest // size} {unit}")
            rest %= size
    return " ".join(parts[:2]) or "0 s"
