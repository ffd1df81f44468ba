"""The errors and warnings about a flow definition, each with its path in the definition."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

DIAGNOSTIC_COUNT_MAX: Final = 1_000
"""How many errors are stored. The same limit applies to warnings and to unknown fields.

Further errors, warnings and unknown fields are only counted.
"""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_QUOTED_LENGTH_MAX: Final = 60


class Diagnostic(NamedTuple):
    path: str
    problem: str


class Diagnostics:
    """Collects the errors, warnings and unknown fields of one definition."""

    def __init__(self) -> None:
        self.error_count = 0
        self._errors: list[Diagnostic] = []
        self._warning_count = 0
        self._warnings: list[Diagnostic] = []
        self._unknown_field_count = 0
        self._unknown_fields: list[Diagnostic] = []

    def add_error(self, path: str, problem: str) -> None:
        self.error_count += 1
        if len(self._errors) < DIAGNOSTIC_COUNT_MAX:
            self._errors.append(Diagnostic(path, problem))

    def add_warning(self, path: str, problem: str) -> None:
        self._warning_count += 1
        if len(self._warnings) < DIAGNOSTIC_COUNT_MAX:
            self._warnings.append(Diagnostic(path, problem))

    def add_unknown_field(self, path: str) -> None:
        """Warn about a field that has no effect, and also list it separately."""
        problem = "is an unknown field and has no effect; correct its name or remove it"
        self.add_warning(path, problem)
        self._unknown_field_count += 1
        if len(self._unknown_fields) < DIAGNOSTIC_COUNT_MAX:
            self._unknown_fields.append(Diagnostic(path, problem))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return _add_overflow_entry(self._errors, self.error_count)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return _add_overflow_entry(self._warnings, self._warning_count)

    @property
    def unknown_fields(self) -> tuple[Diagnostic, ...]:
        return _add_overflow_entry(self._unknown_fields, self._unknown_field_count)


def join_path(path: str, name: str) -> str:
    """Return the path of a member: `nodes.a`, or `nodes["a b"]` if the name needs quotes."""
    if _PLAIN_NAME.match(name):
        return f"{path}.{name}" if path else name
    return f"{path}[{quote_text(name)}]"


def quote_text(text: str) -> str:
    """Quote text for a message: on one line, escaped, and cut if it is long."""
    cut = text if len(text) <= _QUOTED_LENGTH_MAX else f"{text[:_QUOTED_LENGTH_MAX]}…"
    escaped = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in cut)
    return '"' + escaped.replace('"', '\\"') + '"'


def _add_overflow_entry(stored: Iterable[Diagnostic], count: int) -> tuple[Diagnostic, ...]:
    listed = tuple(stored)
    if count == len(listed):
        return listed
    return (
        *listed,
        Diagnostic("definition", f"{count - len(listed):,} more problems are not listed"),
    )
