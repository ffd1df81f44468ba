"""What is wrong with a definition, and what is only suspicious: each with its place."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

DIAGNOSTIC_COUNT_MAX: Final = 1_000
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_QUOTED_LENGTH_MAX: Final = 60


class Diagnostic(NamedTuple):
    path: str
    problem: str


class Diagnostics:
    """Collects all of it. What comes after so many of a sort is counted, not kept."""

    def __init__(self) -> None:
        self.error_count = 0
        self._errors: list[Diagnostic] = []
        self._warning_count = 0
        self._warnings: list[Diagnostic] = []
        self._unknown_field_count = 0
        self._unknown_fields: list[Diagnostic] = []

    def add_error(self, place: str, problem: str) -> None:
        self.error_count += 1
        if len(self._errors) < DIAGNOSTIC_COUNT_MAX:
            self._errors.append(Diagnostic(place, problem))

    def add_warning(self, place: str, problem: str) -> None:
        self._warning_count += 1
        if len(self._warnings) < DIAGNOSTIC_COUNT_MAX:
            self._warnings.append(Diagnostic(place, problem))

    def add_unknown_field(self, place: str) -> None:
        """Warn of a field that has no effect, and also list it separately."""
        problem = "is unknown, and has no effect"
        self.add_warning(place, problem)
        self._unknown_field_count += 1
        if len(self._unknown_fields) < DIAGNOSTIC_COUNT_MAX:
            self._unknown_fields.append(Diagnostic(place, problem))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return _add_overflow_entry(self._errors, self.error_count)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return _add_overflow_entry(self._warnings, self._warning_count)

    @property
    def unknown_fields(self) -> tuple[Diagnostic, ...]:
        return _add_overflow_entry(self._unknown_fields, self._unknown_field_count)


def join_path(place: str, name: str) -> str:
    """The place of a member: `nodes.a`, or `nodes["a b"]` when the name is not plain."""
    if _PLAIN_NAME.match(name):
        return f"{place}.{name}" if place else name
    return f"{place}[{quote_text(name)}]"


def quote_text(text: str) -> str:
    """Text as a message shows it: in quotes, on one line, not too long."""
    cut = text if len(text) <= _QUOTED_LENGTH_MAX else f"{text[:_QUOTED_LENGTH_MAX]}…"
    escaped = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in cut)
    return '"' + escaped.replace('"', '\\"') + '"'


def _add_overflow_entry(kept: Iterable[Diagnostic], count: int) -> tuple[Diagnostic, ...]:
    listed = tuple(kept)
    if count == len(listed):
        return listed
    return (*listed, Diagnostic("definition", f"has {count - len(listed):,} more"))
