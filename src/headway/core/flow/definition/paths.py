"""Paths: how a node points at a parameter, at the shared state, or at its input.

`$params.a.b`, `$shared.items[3].name`, `$input`, `$input.a`. Where a path is expected, a bare name
is a key of the shared state. What is not there is null.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

LENGTH_MAX: Final = 1_000
STEP_COUNT_MAX: Final = 64
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]")


class Root(StrEnum):
    PARAMS = "$params"
    SHARED = "$shared"
    INPUT = "$input"


class PathScope(NamedTuple):
    """What a path can point at."""

    params: Mapping[str, Any]
    shared: Mapping[str, Any]
    input: Any


@dataclass(frozen=True, slots=True)
class Path:
    root: Root
    steps: tuple[str | int, ...]
    text: str
    """As the definition has it."""

    @property
    def shared_key(self) -> str | None:
        """The key of the shared state that it looks under, if it does."""
        first = self.steps[0] if self.root is Root.SHARED else None
        return first if isinstance(first, str) else None

    @property
    def exact_key(self) -> str | None:
        """The key of the shared state that it is, and does not only look under."""
        return self.shared_key if len(self.steps) == 1 else None


class BadPath(ValueError):
    """The text is no path; the message says why."""


def is_reference(text: str) -> bool:
    """Whether a string in an expression points at something, and is not just itself."""
    return text.startswith(("$params.", "$shared.", "$input"))


def parse_path(text: str) -> Path:
    """A reference, or a bare name of the shared state; else BadPath."""
    if len(text) > LENGTH_MAX:
        raise BadPath(f"a path has at most {LENGTH_MAX:,} characters")
    if is_reference(text):
        return _parse_reference(text)
    if text.startswith("$"):
        raise BadPath("a path begins with $params., $shared. or $input, or is a name without $")
    if not text:
        raise BadPath("a path is not empty")
    return Path(Root.SHARED, (text,), text)


def resolve(path: Path, scope: PathScope) -> Any:
    """What `path` points at; None when there is nothing."""
    value: Any = scope.input
    if path.root is not Root.INPUT:
        value = scope.shared if path.root is Root.SHARED else scope.params
    for step in path.steps:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def _parse_reference(text: str) -> Path:
    root = next(root for root in Root if text.startswith(root))
    steps: list[str | int] = []
    position = len(root)
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise BadPath(f"cannot be read from character {position + 1} on")
        name, number = found.groups()
        steps.append(int(number) if name is None else name)
        position = found.end()
    if len(steps) > STEP_COUNT_MAX:
        raise BadPath(f"a path has at most {STEP_COUNT_MAX} steps")
    return Path(root, tuple(steps), text)
