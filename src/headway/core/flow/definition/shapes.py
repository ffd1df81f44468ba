"""The shapes of definition fields: how to parse, write and describe each of them.

For an invalid value, a shape reports the error with its path and returns a placeholder. The
placeholder is never used, because a definition with an error is refused as a whole.
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
"""Fields of later dialects. They are refused, because ignoring them would change the flow."""
UNSUPPORTED_SUFFIX: Final = "_execs"
"""The suffix of the unsupported `parallel_execs`, `foreach_execs` and `subflow_execs`."""
EXEC_TYPE: Final = "http"
"""The only supported value of `exec_type`. It has no effect."""


class Shape(Protocol):
    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> Any: ...

    def to_json(self, value: Any) -> Any:
        """Return JSON that parses to the same value."""
        ...

    def schema(self) -> JsonSchema: ...


def iter_members(
    value: Any, fields: Container[str], path: str, diagnostics: Diagnostics
) -> Iterator[tuple[str, Any]]:
    """Yield the canonical name and the value of each field that is set.

    Clients may write names in any case, and null or an empty text for an absent field. An unknown
    field causes a warning, or an error if it would change the meaning of the definition.
    """
    if not isinstance(value, dict):
        diagnostics.add_error(path, "must be an object")
        return
    seen: set[str] = set()
    for name, member in value.items():
        field = name if name in fields else name.lower()
        if field not in fields:
            _report_unknown(name, member, path, diagnostics)
        elif field in seen:
            diagnostics.add_error(
                join_path(path, name),
                f"repeats the field {quote_text(field)} in another case; remove one of the two",
            )
        else:
            seen.add(field)
            if member is not None and member != "":
                yield field, member


def _report_unknown(name: str, value: Any, path: str, diagnostics: Diagnostics) -> None:
    """Warn about an unknown field. Refuse it if it would change the meaning of the flow.

    A field of another dialect with an empty value is accepted: some clients always write these
    fields, as null or an empty list (R5.15).
    """
    lowered = name.lower()
    if lowered not in UNSUPPORTED_FIELDS and not lowered.endswith(UNSUPPORTED_SUFFIX):
        diagnostics.add_unknown_field(join_path(path, name))
    elif value in (None, "", [], {}) or (lowered == "exec_type" and value == EXEC_TYPE):
        return
    elif lowered == "exec_type":
        problem = f"must be {quote_text(EXEC_TYPE)}: headway calls workers over HTTP only"
        diagnostics.add_error(join_path(path, name), problem)
    else:
        diagnostics.add_error(
            join_path(path, name),
            "is not supported and would change the meaning of the flow; remove it",
        )


@dataclass(frozen=True, slots=True)
class Text:
    is_shared_key: bool = False
    """True if the text is a shared-state key to which the node writes."""

    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> str:
        if not isinstance(value, str):
            diagnostics.add_error(path, "must be text")
            return ""
        if len(value) > NAME_LENGTH_MAX:
            diagnostics.add_error(
                path, f"has {len(value):,} characters; the limit is {NAME_LENGTH_MAX}"
            )
        elif self.is_shared_key and (problem := key_problem(value)) is not None:
            diagnostics.add_error(path, problem)
        return value

    def to_json(self, value: str) -> str:
        return value

    def schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "string", "maxLength": NAME_LENGTH_MAX}
        return schema | ({"not": {"const": RESERVED_KEY}} if self.is_shared_key else {})


@dataclass(frozen=True, slots=True)
class Count:
    maximum: int

    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> int:
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not is_whole or not 0 <= value <= self.maximum:
            diagnostics.add_error(path, f"must be a whole number from 0 to {self.maximum:,}")
            return 0
        return int(value)

    def to_json(self, value: int) -> int:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": 0, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Flag:
    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> bool:
        if not isinstance(value, bool):
            diagnostics.add_error(path, "must be true or false")
        return value is True

    def to_json(self, value: bool) -> bool:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class EnumValue:
    enum: type[StrEnum]

    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> StrEnum | None:
        if isinstance(value, str) and value in set(self.enum):
            return self.enum(value)
        diagnostics.add_error(path, f"must be one of: {', '.join(self.enum)}")
        return None

    def to_json(self, value: StrEnum) -> str:
        return value.value

    def schema(self) -> JsonSchema:
        return {"enum": [member.value for member in self.enum]}


@dataclass(frozen=True, slots=True)
class PathText:
    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> Path | None:
        if not isinstance(value, str):
            diagnostics.add_error(path, "must be a path, written as text")
            return None
        try:
            return parse_path(value)
        except BadPath as error:
            diagnostics.add_error(path, str(error))
            return None

    def to_json(self, value: Path) -> str:
        return value.text

    def schema(self) -> JsonSchema:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class NameOrPath:
    """A name in the output or the shared state, or a path, which begins with `$`."""

    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> str:
        text = Text().parse(value, path, diagnostics)
        if text.startswith("$"):
            PathText().parse(text, path, diagnostics)
        return text

    def to_json(self, value: str) -> str:
        return value

    def schema(self) -> JsonSchema:
        return Text().schema()


@dataclass(frozen=True, slots=True)
class AnyObject:
    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        diagnostics.add_error(path, "must be an object")
        return {}

    def to_json(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def schema(self) -> JsonSchema:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list whose items all have the same shape."""

    item: Shape
    count_max: int

    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> tuple[Any, ...]:
        if not isinstance(value, list):
            diagnostics.add_error(path, "must be a list")
            return ()
        if len(value) > self.count_max:
            diagnostics.add_error(
                path, f"has {len(value):,} members; the limit is {self.count_max:,}"
            )
            return ()
        return tuple(
            self.item.parse(item, f"{path}[{index}]", diagnostics)
            for index, item in enumerate(value)
        )

    def to_json(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.item.to_json(item) for item in value]

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": self.item.schema(), "maxItems": self.count_max}


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with arbitrary names, whose members all have the same shape."""

    item: Shape
    has_shared_keys: bool = False
    """True if the names are shared-state keys to which the node writes."""

    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> dict[str, Any]:
        if not isinstance(value, dict):
            diagnostics.add_error(path, "must be an object")
            return {}
        for name in value if self.has_shared_keys else ():
            Text(is_shared_key=True).parse(name, join_path(path, name), diagnostics)
        return {
            name: self.item.parse(member, join_path(path, name), diagnostics)
            for name, member in value.items()
        }

    def to_json(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.item.to_json(member) for name, member in value.items()}

    def schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "object", "additionalProperties": self.item.schema()}
        return schema | (
            {"propertyNames": Text(is_shared_key=True).schema()} if self.has_shared_keys else {}
        )


@dataclass(frozen=True, slots=True)
class ErrorActions:
    """One action for all errors, or a map from error texts to actions."""

    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> Mapping[str, str]:
        if isinstance(value, str):
            return {ANY_ERROR: Text().parse(value, path, diagnostics)}
        if isinstance(value, dict):
            return {
                error: Text().parse(action, join_path(path, error), diagnostics)
                for error, action in value.items()
            }
        diagnostics.add_error(path, "must be an action, or an object that maps errors to actions")
        return {}

    def to_json(self, value: Mapping[str, str]) -> Any:
        return value[ANY_ERROR] if list(value) == [ANY_ERROR] else dict(value)

    def schema(self) -> JsonSchema:
        action = Text().schema()
        return {"anyOf": [action, {"type": "object", "additionalProperties": action}]}


@dataclass(frozen=True, slots=True)
class CaseShape:
    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> ChoiceCase | None:
        if not isinstance(value, dict):
            diagnostics.add_error(path, "must be an object with `action` and `expr`")
            return None
        value = dict(iter_members(value, {"action", "expr"}, path, diagnostics))
        action = value.get("action")
        if not isinstance(action, str) or not action:
            diagnostics.add_error(join_path(path, "action"), "must be the name of an action")
            action = ""
        Text().parse(action, join_path(path, "action"), diagnostics)
        if "expr" not in value:
            diagnostics.add_error(join_path(path, "expr"), "is missing; a case needs an expression")
            return None
        return ChoiceCase(
            action, parse_predicate(value["expr"], join_path(path, "expr"), diagnostics)
        )

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
