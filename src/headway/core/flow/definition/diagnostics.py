"""What is wrong with a definition, and what is only suspicious: each with its place."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

FAULT_COUNT_MAX: Final = 1_000
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_SHOWN_LENGTH_MAX: Final = 60


class Fault(NamedTuple):
    place: str
    problem: str


class Report:
    """Collects all of it. What comes after so many of a sort is counted, not kept."""

    def __init__(self) -> None:
        self.fault_count = 0
        self._faults: list[Fault] = []
        self._warning_count = 0
        self._warnings: list[Fault] = []
        self._unknown_count = 0
        self._unknown_fields: list[Fault] = []

    def fault(self, place: str, problem: str) -> None:
        self.fault_count += 1
        if len(self._faults) < FAULT_COUNT_MAX:
            self._faults.append(Fault(place, problem))

    def warn(self, place: str, problem: str) -> None:
        self._warning_count += 1
        if len(self._warnings) < FAULT_COUNT_MAX:
            self._warnings.append(Fault(place, problem))

    def warn_of_unknown_field(self, place: str) -> None:
        """Warn of a field that has no effect, and also list it separately."""
        problem = "is unknown, and has no effect"
        self.warn(place, problem)
        self._unknown_count += 1
        if len(self._unknown_fields) < FAULT_COUNT_MAX:
            self._unknown_fields.append(Fault(place, problem))

    @property
    def faults(self) -> tuple[Fault, ...]:
        return _with_rest(self._faults, self.fault_count)

    @property
    def warnings(self) -> tuple[Fault, ...]:
        return _with_rest(self._warnings, self._warning_count)

    @property
    def unknown_fields(self) -> tuple[Fault, ...]:
        return _with_rest(self._unknown_fields, self._unknown_count)


def member(place: str, name: str) -> str:
    """The place of a member: `nodes.a`, or `nodes["a b"]` when the name is not plain."""
    if _PLAIN_NAME.match(name):
        return f"{place}.{name}" if place else name
    return f"{place}[{shown(name)}]"


def shown(text: str) -> str:
    """Text as a message shows it: in quotes, on one line, not too long."""
    cut = text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}…"
    escaped = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in cut)
    return '"' + escaped.replace('"', '\\"') + '"'


def _with_rest(kept: Iterable[Fault], count: int) -> tuple[Fault, ...]:
    listed = tuple(kept)
    if count == len(listed):
        return listed
    return (*listed, Fault("definition", f"has {count - len(listed):,} more"))
