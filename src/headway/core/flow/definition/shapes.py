"""The shapes that the fields of a definition have: how one is read, written, and told to an editor.

Reading reports every fault with its place and then answers something of no use: a definition with a
fault is refused as a whole.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from headway.core.document import NAME_LENGTH_MAX
from headway.core.flow.definition.definition import ANY_ERROR, RESERVED_KEY, Case, fault_of_key
from headway.core.flow.definition.diagnostics import Report, member, shown
from headway.core.flow.definition.paths import BadPath, Path, parse_path
from headway.core.flow.definition.predicates import OPERATORS, read_predicate

JsonSchema = dict[str, Any]
UNSUPPORTED_FIELDS: Final = frozenset({"exec_type", "func", "script"})
"""Fields of later dialects. A definition without them would be a different flow."""
UNSUPPORTED_SUFFIX: Final = "_execs"
"""The suffix of `parallel_execs`, `foreach_execs` and `subflow_execs`."""
EXEC_TYPE: Final = "http"
"""The only supported value of `exec_type`. It has no effect."""


class Shape(Protocol):
    def read(self, value: Any, place: str, report: Report) -> Any: ...

    def write(self, value: Any) -> Any:
        """JSON that is read as the same value."""
        ...

    def schema(self) -> JsonSchema: ...


def members_of(
    value: Any, fields: Container[str], place: str, report: Report
) -> Iterator[tuple[str, Any]]:
    """The fields that are set, under their own names.

    Names are matched whatever their case, and null or an empty text is as good as nothing: so do
    the clients that write definitions. An unknown field is a warning, unless it would change what
    the definition means.
    """
    if not isinstance(value, dict):
        report.fault(place, "must be an object")
        return
    seen: set[str] = set()
    for name, one in value.items():
        known = name if name in fields else name.lower()
        if known not in fields:
            _report_unknown(name, one, place, report)
        elif known in seen:
            report.fault(member(place, name), f"comes twice, in two spellings of {shown(known)}")
        else:
            seen.add(known)
            if one is not None and one != "":
                yield known, one


def _report_unknown(name: str, value: Any, place: str, report: Report) -> None:
    """Refuse a field of another dialect that would change the meaning; warn of any other (R5.15).

    An empty value has no effect: some clients always write these fields, as null or an empty list.
    """
    lowered = name.lower()
    if lowered not in UNSUPPORTED_FIELDS and not lowered.endswith(UNSUPPORTED_SUFFIX):
        report.warn_of_unknown_field(member(place, name))
    elif value in (None, "", [], {}) or (lowered == "exec_type" and value == EXEC_TYPE):
        return
    elif lowered == "exec_type":
        problem = f"must be {shown(EXEC_TYPE)}: headway calls workers over HTTP only"
        report.fault(member(place, name), problem)
    else:
        report.fault(member(place, name), "is not supported, and would change what the flow does")


@dataclass(frozen=True, slots=True)
class Text:
    is_key: bool = False
    """Whether it is a key of the shared state that is written."""

    def read(self, value: Any, place: str, report: Report) -> str:
        if not isinstance(value, str):
            report.fault(place, "must be text")
            return ""
        if len(value) > NAME_LENGTH_MAX:
            report.fault(place, f"has {len(value):,} characters; the limit is {NAME_LENGTH_MAX}")
        elif self.is_key and (problem := fault_of_key(value)) is not None:
            report.fault(place, problem)
        return value

    def write(self, value: str) -> str:
        return value

    def schema(self) -> JsonSchema:
        told: JsonSchema = {"type": "string", "maxLength": NAME_LENGTH_MAX}
        return told | ({"not": {"const": RESERVED_KEY}} if self.is_key else {})


@dataclass(frozen=True, slots=True)
class Count:
    most: int

    def read(self, value: Any, place: str, report: Report) -> int:
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not is_whole or not 0 <= value <= self.most:
            report.fault(place, f"must be a whole number from 0 to {self.most:,}")
            return 0
        return int(value)

    def write(self, value: int) -> int:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": 0, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Flag:
    def read(self, value: Any, place: str, report: Report) -> bool:
        if not isinstance(value, bool):
            report.fault(place, "must be true or false")
        return value is True

    def write(self, value: bool) -> bool:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Word:
    words: type[StrEnum]

    def read(self, value: Any, place: str, report: Report) -> StrEnum | None:
        if isinstance(value, str) and value in set(self.words):
            return self.words(value)
        report.fault(place, f"must be one of: {', '.join(self.words)}")
        return None

    def write(self, value: StrEnum) -> str:
        return value.value

    def schema(self) -> JsonSchema:
        return {"enum": [word.value for word in self.words]}


@dataclass(frozen=True, slots=True)
class PathText:
    def read(self, value: Any, place: str, report: Report) -> Path | None:
        if not isinstance(value, str):
            report.fault(place, "must be a path, as text")
            return None
        try:
            return parse_path(value)
        except BadPath as error:
            report.fault(place, str(error))
            return None

    def write(self, value: Path) -> str:
        return value.text

    def schema(self) -> JsonSchema:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class NameOrPath:
    """A name in the output or the shared state; or a path, which begins with `$`."""

    def read(self, value: Any, place: str, report: Report) -> str:
        text = Text().read(value, place, report)
        if text.startswith("$"):
            PathText().read(text, place, report)
        return text

    def write(self, value: str) -> str:
        return value

    def schema(self) -> JsonSchema:
        return Text().schema()


@dataclass(frozen=True, slots=True)
class AnyObject:
    def read(self, value: Any, place: str, report: Report) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        report.fault(place, "must be an object")
        return {}

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def schema(self) -> JsonSchema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class Several:
    """A list of one shape."""

    each: Shape
    most: int

    def read(self, value: Any, place: str, report: Report) -> tuple[Any, ...]:
        if not isinstance(value, list):
            report.fault(place, "must be a list")
            return ()
        if len(value) > self.most:
            report.fault(place, f"has {len(value):,} members; the limit is {self.most:,}")
            return ()
        return tuple(self.each.read(one, f"{place}[{at}]", report) for at, one in enumerate(value))

    def write(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.each.write(one) for one in value]

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": self.each.schema(), "maxItems": self.most}


@dataclass(frozen=True, slots=True)
class Named:
    """An object whose names are free, and whose members have one shape."""

    each: Shape
    are_keys: bool = False
    """Whether its names are keys of the shared state that are written."""

    def read(self, value: Any, place: str, report: Report) -> dict[str, Any]:
        if not isinstance(value, dict):
            report.fault(place, "must be an object")
            return {}
        for name in value if self.are_keys else ():
            Text(is_key=True).read(name, member(place, name), report)
        return {
            name: self.each.read(one, member(place, name), report) for name, one in value.items()
        }

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.each.write(one) for name, one in value.items()}

    def schema(self) -> JsonSchema:
        told: JsonSchema = {"type": "object", "additionalProperties": self.each.schema()}
        return told | ({"propertyNames": Text(is_key=True).schema()} if self.are_keys else {})


@dataclass(frozen=True, slots=True)
class ErrorActions:
    """One action for every error, or an action for each error's text."""

    def read(self, value: Any, place: str, report: Report) -> Mapping[str, str]:
        if isinstance(value, str):
            return {ANY_ERROR: Text().read(value, place, report)}
        if isinstance(value, dict):
            return {
                error: Text().read(action, member(place, error), report)
                for error, action in value.items()
            }
        report.fault(place, "must be an action, or an object that gives errors their actions")
        return {}

    def write(self, value: Mapping[str, str]) -> Any:
        return value[ANY_ERROR] if list(value) == [ANY_ERROR] else dict(value)

    def schema(self) -> JsonSchema:
        action = Text().schema()
        return {"anyOf": [action, {"type": "object", "additionalProperties": action}]}


@dataclass(frozen=True, slots=True)
class CaseShape:
    def read(self, value: Any, place: str, report: Report) -> Case | None:
        if not isinstance(value, dict):
            report.fault(place, "must be an object with `action` and `expr`")
            return None
        value = dict(members_of(value, {"action", "expr"}, place, report))
        action = value.get("action")
        if not isinstance(action, str) or not action:
            report.fault(member(place, "action"), "must be the name of an action")
            action = ""
        Text().read(action, member(place, "action"), report)
        if "expr" not in value:
            report.fault(member(place, "expr"), "is missing")
            return None
        return Case(action, read_predicate(value["expr"], member(place, "expr"), report))

    def write(self, value: Case) -> dict[str, Any]:
        return {"action": value.action, "expr": value.expr.source}

    def schema(self) -> JsonSchema:
        return {
            "type": "object",
            "properties": {
                "action": {**Text().schema(), "minLength": 1},
                "expr": {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 1,
                    "propertyNames": {"enum": list(OPERATORS)},
                },
            },
            "required": ["action", "expr"],
        }
