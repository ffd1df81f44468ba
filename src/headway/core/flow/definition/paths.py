"""Paths, by which a node refers to a parameter, to the shared state, or to its input.

Examples are `$params.a.b`, `$shared.items[3].name`, `$input` and `$input.a`. Where a path is
expected, a bare name is a key of the shared state. A path to a missing value resolves to null.
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
    """The values that a path can refer to."""

    params: Mapping[str, Any]
    shared: Mapping[str, Any]
    input: Any


@dataclass(frozen=True, slots=True)
class Path:
    root: Root
    steps: tuple[str | int, ...]
    text: str
    """The path as written in the definition."""

    @property
    def shared_key(self) -> str | None:
        """The shared-state key with which the path begins. None if the path has another root."""
        first = self.steps[0] if self.root is Root.SHARED else None
        return first if isinstance(first, str) else None

    @property
    def exact_key(self) -> str | None:
        """The shared-state key if the path is exactly one such key, else None."""
        return self.shared_key if len(self.steps) == 1 else None


class BadPath(ValueError):
    """The text is not a valid path. The message describes the problem."""


def is_reference(text: str) -> bool:
    """Return True if a string in an expression is a path, and False if it is a literal."""
    return text.startswith(("$params.", "$shared.", "$input"))


def parse_path(text: str) -> Path:
    """Parse a reference, or a bare name in the shared state. Raise BadPath for other text."""
    if len(text) > LENGTH_MAX:
        raise BadPath(f"has {len(text):,} characters; a path has at most {LENGTH_MAX:,}")
    if is_reference(text):
        return _parse_reference(text)
    if text.startswith("$"):
        raise BadPath("must begin with $params., $shared. or $input, or be a name without $")
    if not text:
        raise BadPath("must not be empty")
    return Path(Root.SHARED, (text,), text)


def resolve(path: Path, scope: PathScope) -> Any:
    """Return the value that `path` refers to, or None if there is none."""
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
        match = _STEP.match(text, position)
        if match is None:
            raise BadPath(
                f"is invalid from character {position + 1} on; write .name or [number]"
                " for each step"
            )
        name, number = match.groups()
        steps.append(int(number) if name is None else name)
        position = match.end()
    if len(steps) > STEP_COUNT_MAX:
        raise BadPath(f"has {len(steps)} steps; a path has at most {STEP_COUNT_MAX}")
    return Path(root, tuple(steps), text)
