"""How commands show things: tables on a terminal, plain lines in a pipe, JSON when asked for."""

import json as jsonlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from cyclopts import Parameter
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
JsonOption = Annotated[bool, Parameter(negative=(), help="Print JSON, an object on every line.")]
"""The option `--json`; there is no `--no-json`."""
AppOption = Annotated[
    str | None,
    Parameter(
        help="Without a server: the `Headway` with the jobs and the database, `module:name`."
    ),
]
IdempotencyKeyOption = Annotated[
    str | None, Parameter(help="The same again starts nothing new, and prints what was started.")
]
TIME_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def make_console() -> Console:
    """Standard output, in which nothing of what is shown means anything to the terminal."""
    return Console(markup=False, highlight=False, emoji=False)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def print_json(value: Any) -> None:
    """One object on one line, at once: what reads it may wait for it."""
    print(jsonlib.dumps(value, ensure_ascii=False), flush=True)


def print_list(
    things: Iterable[Any],
    headings: Sequence[str],
    columns: Callable[[Any], Iterable[Any]],
    *,
    empty: str,
    as_json: bool,
) -> None:
    """A table for people; for programs a line for each thing: its columns with tabs, or JSON."""
    if as_json:
        for thing in things:
            print_json(thing)
        return
    rows = [[to_printable(value) for value in columns(thing)] for thing in things]
    if is_terminal():
        make_console().print(_build_table(headings, rows) if rows else empty)
    else:
        for row in rows:
            print("\t".join(row))


def _build_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(value, style=STYLES.get(value.split(" (")[0], "")) for value in row))
    return table


def print_fields(facts: Mapping[str, Any]) -> None:
    """A line for each fact; what is not known has none."""
    known = {name: value for name, value in facts.items() if value not in (None, "", [])}
    width = max(map(len, known), default=0)
    for name, value in known.items():
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
    """A value in one line, in which nothing could move a cursor or forge another line (S4)."""
    text = value if isinstance(value, str) else jsonlib.dumps(value, ensure_ascii=False)
    text = "" if value is None else text
    return "".join(_escape_unprintable(letter) for letter in text)


def _escape_unprintable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def state_label(run: Mapping[str, Any]) -> str:
    """The word of its state, and what that does not tell, as the page says it."""
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
    """How long ago that was, or how long before `until`, in one or two units."""
    end = datetime.now(UTC) if until is None else datetime.fromisoformat(until)
    return format_duration((end - datetime.fromisoformat(instant)).total_seconds())


def format_duration(seconds: float) -> str:
    left = max(0, round(seconds))
    parts = []
    for size, unit in TIME_UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2]) or "0 s"
