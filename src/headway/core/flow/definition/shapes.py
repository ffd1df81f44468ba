"""The shapes that the fields of a definition have: how one is read, written, and told to an editor.

Reading reports every fault with its place and then answers something of no use: a definition with a
fault is refused as a whole.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from headway.core.document import NAME_LENGTH_MAX
from headway.core.flow.definition.definition import ANY_ERROR, RESERVED_KEY, ChoiceCase, key_problem
from headway.core.flow.definition.diagnostics import Diagnostics, join_path, quote_text
from headway.core.flow.definition.paths import BadPath, Path, parse_path
from headway.core.flow.definition.predicates import OPERATORS, parse_predicate

JsonSchema = dict[str, Any]
UNSUPPORTED_FIELDS: Final = frozenset({"exec_type", "func", "script"})
"""Fields of later dialects. A definition without them would be a different flow."""
UNSUPPORTED_SUFFIX: Final = "_execs"
"""The suffix of `parallel_execs`, `foreach_execs` and `subflow_execs`."""
EXEC_TYPE: Final = "http"
"""The only supported value of `exec_type`. It has no effect."""


class Shape(Protocol):
    def parse(self, value: Any, place: str, report: Diagnostics) -> Any: ...

    def to_json(self, value: Any) -> Any:
        """JSON that is read as the same value."""
        ...

    def schema(self) -> JsonSchema: ...


def iter_members(
    value: Any, fields: Container[str], place: str, report: Diagnostics
) -> Iterator[tuple[str, Any]]:
    """The fields that are set, under their own names.

    Names are matched whatever their case, and null or an empty text is as good as nothing: so do
    the clients that write definitions. An unknown field is a warning, unless it would change what
    the definition means.
    """
    if not isinstance(value, dict):
        report.add_error(place, "must be an object")
        return
    seen: set[str] = set()
    for name, one in value.items():
        known = name if name in fields else name.lower()
        if known not in fields:
            _report_unknown(name, one, place, report)
        elif known in seen:
            report.add_error(
                join_path(place, name), f"comes twice, in two spellings of {quote_text(known)}"
            )
        else:
            seen.add(known)
            if one is not None and one != "":
                yield known, one


def _report_unknown(name: str, value: Any, place: str, report: Diagnostics) -> None:
    """Refuse a field of another dialect that would change the meaning; warn of any other (R5.15).

    An empty value has no effect: some clients always write these fields, as null or an empty list.
    """
    lowered = name.lower()
    if lowered not in UNSUPPORTED_FIELDS and not lowered.endswith(UNSUPPORTED_SUFFIX):
        report.add_unknown_field(join_path(place, name))
    elif value in (None, "", [], {}) or (lowered == "exec_type" and value == EXEC_TYPE):
        return
    elif lowered == "exec_type":
        problem = f"must be {quote_text(EXEC_TYPE)}: headway calls workers over HTTP only"
        report.add_error(join_path(place, name), problem)
    else:
        report.add_error(
            join_path(place, name), "is not supported, and would change what the flow does"
        )


@dataclass(frozen=True, slots=True)
class Text:
    is_shared_key: bool = False
    """Whether it is a key of the shared state that is written."""

    def parse(self, value: Any, place: str, report: Diagnostics) -> str:
        if not isinstance(value, str):
            report.add_error(place, "must be text")
            return ""
        if len(value) > NAME_LENGTH_MAX:
            report.add_error(
                place, f"has {len(value):,} characters; the limit is {NAME_LENGTH_MAX}"
            )
        elif self.is_shared_key and (problem := key_problem(value)) is not None:
            report.add_error(place, problem)
        return value

    def to_json(self, value: str) -> str:
        return value

    def schema(self) -> JsonSchema:
        told: JsonSchema = {"type": "string", "maxLength": NAME_LENGTH_MAX}
        return told | ({"not": {"const": RESERVED_KEY}} if self.is_shared_key else {})


@dataclass(frozen=True, slots=True)
class Count:
    maximum: int

    def parse(self, value: Any, place: str, report: Diagnostics) -> int:
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not is_whole or not 0 <= value <= self.maximum:
            report.add_error(place, f"must be a whole number from 0 to {self.maximum:,}")
            return 0
        return int(value)

    def to_json(self, value: int) -> int:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": 0, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Flag:
    def parse(self, value: Any, place: str, report: Diagnostics) -> bool:
        if not isinstance(value, bool):
            report.add_error(place, "must be true or false")
        return value is True

    def to_json(self, value: bool) -> bool:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class EnumValue:
    enum: type[StrEnum]

    def parse(self, value: Any, place: str, report: Diagnostics) -> StrEnum | None:
        if isinstance(value, str) and value in set(self.enum):
            return self.enum(value)
        report.add_error(place, f"must be one of: {', '.join(self.enum)}")
        return None

    def to_json(self, value: StrEnum) -> str:
        return value.value

    def schema(self) -> JsonSchema:
        return {"enum": [word.value for word in self.enum]}


@dataclass(frozen=True, slots=True)
class PathText:
    def parse(self, value: Any, place: str, report: Diagnostics) -> Path | None:
        if not isinstance(value, str):
            report.add_error(place, "must be a path, as text")
            return None
        try:
            return parse_path(value)
        except BadPath as error:
            report.add_error(place, str(error))
            return None

    def to_json(self, value: Path) -> str:
        return value.text

    def schema(self) -> JsonSchema:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class NameOrPath:
    """A name in the output or the shared state; or a path, which begins with `$`."""

    def parse(self, value: Any, place: str, report: Diagnostics) -> str:
        text = Text().parse(value, place, report)
        if text.startswith("$"):
            PathText().parse(text, place, report)
        return text

    def to_json(self, value: str) -> str:
        return value

    def schema(self) -> JsonSchema:
        return Text().schema()


@dataclass(frozen=True, slots=True)
class AnyObject:
    def parse(self, value: Any, place: str, report: Diagnostics) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        report.add_error(place, "must be an object")
        return {}

    def to_json(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def schema(self) -> JsonSchema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one shape."""

    item: Shape
    count_max: int

    def parse(self, value: Any, place: str, report: Diagnostics) -> tuple[Any, ...]:
        if not isinstance(value, list):
            report.add_error(place, "must be a list")
            return ()
        if len(value) > self.count_max:
            report.add_error(place, f"has {len(value):,} members; the limit is {self.count_max:,}")
            return ()
        return tuple(self.item.parse(one, f"{place}[{at}]", report) for at, one in enumerate(value))

    def to_json(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.item.to_json(one) for one in value]

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": self.item.schema(), "maxItems": self.count_max}


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose names are free, and whose members have one shape."""

    item: Shape
    has_shared_keys: bool = False
    """Whether its names are keys of the shared state that are written."""

    def parse(self, value: Any, place: str, report: Diagnostics) -> dict[str, Any]:
        if not isinstance(value, dict):
            report.add_error(place, "must be an object")
            return {}
        for name in value if self.has_shared_keys else ():
            Text(is_shared_key=True).parse(name, join_path(place, name), report)
        return {
            name: self.item.parse(one, join_path(place, name), report)
            for name, one in value.items()
        }

    def to_json(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.item.to_json(one) for name, one in value.items()}

    def schema(self) -> JsonSchema:
        told: JsonSchema = {"type": "object", "additionalProperties": self.item.schema()}
        return told | (
            {"propertyNames": Text(is_shared_key=True).schema()} if self.has_shared_keys else {}
        )


@dataclass(frozen=True, slots=True)
class ErrorActions:
    """One action for every error, or an action for each error's text."""

    def parse(self, value: Any, place: str, report: Diagnostics) -> Mapping[str, str]:
        if isinstance(value, str):
            return {ANY_ERROR: Text().parse(value, place, report)}
        if isinstance(value, dict):
            return {
                error: Text().parse(action, join_path(place, error), report)
                for error, action in value.items()
            }
        report.add_error(place, "must be an action, or an object that gives errors their actions")
        return {}

    def to_json(self, value: Mapping[str, str]) -> Any:
        return value[ANY_ERROR] if list(value) == [ANY_ERROR] else dict(value)

    def schema(self) -> JsonSchema:
        action = Text().schema()
        return {"anyOf": [action, {"type": "object", "additionalProperties": action}]}


@dataclass(frozen=True, slots=True)
class CaseShape:
    def parse(self, value: Any, place: str, report: Diagnostics) -> ChoiceCase | None:
        if not isinstance(value, dict):
            report.add_error(place, "must be an object with `action` and `expr`")
            return None
        value = dict(iter_members(value, {"action", "expr"}, place, report))
        action = value.get("action")
        if not isinstance(action, str) or not action:
            report.add_error(join_path(place, "action"), "must be the name of an action")
            action = ""
        Text().parse(action, join_path(place, "action"), report)
        if "expr" not in value:
            report.add_error(join_path(place, "expr"), "is missing")
            return None
        return ChoiceCase(action, parse_predicate(value["expr"], join_path(place, "expr"), report))

    def to_json(self, value: ChoiceCase) -> dict[str, Any]:
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
