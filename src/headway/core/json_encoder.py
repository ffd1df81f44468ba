"""JSON encoders, derived from the classes that describe the objects.

A class describes a JSON object once, by its fields and their types. The encoder, the types of the
encoder's arguments, and the schema in the OpenAPI document are derived from it. An encoder is
compiled once per class, as `dataclasses` does for `__init__`. It is one f-string, as fast as one
that is written by hand.

| type of a field | JSON |
|---|---|
| `str`, a `StrEnum`, `bool`, `int`, `float` | the value |
| `Instant` | RFC 3339 in UTC, to the microsecond |
| `Document`, `Json[X]` | JSON text already, inserted as it is |
| `Stored` | JSON text already, inserted with its secrets redacted |
| a list or tuple of these | an array |
| anything else | the value as the `json` module encodes it |

A field that is None is encoded as `null`, or left out if None is also its default. The JSON name of
a field has no trailing `_`: `from_` is `from`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from json.encoder import encode_basestring
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from headway.core.document import Document
from headway.core.ids import Instant
from headway.core.secret import redact

M = TypeVar("M")
P = ParamSpec("P")
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # UTC, like all instants.
_REDACTED: Final = "redacted"
Stored = Annotated[str, _REDACTED]
"""A stored document, which may contain secrets."""


class Json(str, Generic[M]):
    """The JSON text of an `M`. For the type checker only: at run time it is a plain `str`."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return the schema of `M`. Pydantic calls this for each model field of type `Json[M]`."""
        return handler.generate_schema(get_args(source)[0])


def format_instant(at: Instant) -> str:
    """Format an instant as RFC 3339 in UTC, to the microsecond."""
    return _quote_instant(at)[1:-1]


def _quote_instant(at: Instant) -> str:
    # Keyword arguments would double the time, and a run has up to seven instants.
    return f'"{(EPOCH + timedelta(0, 0, at)).isoformat("T", "microseconds")}Z"'


encode_json: Final[Callable[[Any], str]] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":")
).encode


def derive_encoder(described: Callable[P, M]) -> Callable[P, Json[M]]:
    """Return a function that takes the fields of the class as keywords and returns the JSON."""
    fields = get_fields(described)
    parameters = ", ".join(["*", *fields])
    return cast("Callable[P, Json[M]]", _compile(fields, parameters))


def derive_object_encoder(described: type[M]) -> Callable[[M], Json[M]]:
    """Return a function that takes an object of the class and returns its JSON."""
    fields = get_fields(described)
    loads = [f"{name} = self.{name}" for name in fields]
    return cast("Callable[[M], Json[M]]", _compile(fields, "self", loads))


def derive_extension(described: type[M]) -> Callable[..., Json[M]]:
    """Return a function that adds the fields of a subclass to the JSON of its base class.

    The function takes that JSON, and the added fields as keywords.
    """
    inherited = get_fields(described.__mro__[1])
    fields = {name: f for name, f in get_fields(described).items() if name not in inherited}
    parameters = ", ".join(["base", "*", *fields])
    return cast("Callable[..., Json[M]]", _compile(fields, parameters, base="{base[1:-1]},"))


class JsonField(NamedTuple):
    name: str
    """The name in JSON."""
    type: Any
    """The type of the field, without None."""
    is_nullable: bool
    is_optional: bool
    """True if the field is left out when it is None."""


def get_fields(described: Any) -> dict[str, JsonField]:
    """Return the fields of a dataclass or pydantic model. The keys are the names in the class."""
    hints = get_type_hints(described, include_extras=True)
    fields = getattr(described, "model_fields", None) or described.__dataclass_fields__
    found = {}
    for name, field in fields.items():
        kind, is_nullable = _without_none(hints[name])
        is_optional = is_nullable and field.default is None
        found[name] = JsonField(name.removesuffix("_"), kind, is_nullable, is_optional)
    return found


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is Annotated:  # As in Annotated[str | None, …].
        kind, is_nullable = _without_none(get_args(annotation)[0])
        return Annotated[(kind, *annotation.__metadata__)], is_nullable
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    is_nullable = len(kinds) < len(get_args(annotation))
    return kinds[0] if len(kinds) == 1 else Any, is_nullable


def _compile(
    fields: Mapping[str, JsonField], parameters: str, loads: Sequence[str] = (), *, base: str = ""
) -> Any:
    assert fields.keys().isdisjoint(_RESERVED_NAMES), "a field would hide a name of the encoder"
    lines, members = list(loads), ""
    for name, field in fields.items():
        member, value = f',"{field.name}":', _expression(field.type, name)
        if field.is_optional:
            lines.append(f"{name} = '' if {name} is None else f'{member}{{{value}}}'")
            members += f"{{{name}}}"
            continue
        if field.is_nullable:
            lines.append(f"{name} = 'null' if {name} is None else {value}")
            value = name
        members += f"{member}{{{value}}}"
    if members.startswith(","):
        members = members[1:]
    else:  # The first member may be left out, so the leading comma is removed at run time.
        lines.append(f"members = f'{members}'")
        members = "{members[1:]}"
    lines.append(f"return f'{{{{{base}{members}}}}}'")
    source = "\n    ".join([f"def encode({parameters}):", *lines])
    namespace = dict(_FUNCTIONS)
    exec(source, namespace)  # noqa: S102 - Made of the names and types of our own classes only.
    return namespace["encode"]


def _expression(kind: Any, value: str) -> str:
    """Return a Python expression that encodes `value` as JSON. It contains no apostrophe."""
    if get_origin(kind) is Annotated:
        if _REDACTED in get_args(kind):
            return f"redact({value})"
        return _expression(get_args(kind)[0], value)
    if kind is Document or get_origin(kind) is Json:
        return value
    if kind is Instant:
        return f"instant({value})"
    kind = getattr(kind, "__supertype__", kind)
    if get_origin(kind) is Literal:
        kind = type(get_args(kind)[0])
    if get_origin(kind) in (list, tuple):
        item = _expression(get_args(kind)[0], "item")
        items = value if item == "item" else f"[{item} for item in {value}]"
        return f"array({items})"
    if kind is bool:
        return f"boolean[{value}]"
    if kind is int:
        return value
    return (
        f"text({value})" if isinstance(kind, type) and issubclass(kind, str) else f"json({value})"
    )


_FUNCTIONS: Final[Mapping[str, Any]] = {
    "array": lambda items: f"[{','.join(items)}]",
    "boolean": {True: "true", False: "false"},
    "instant": _quote_instant,
    "json": encode_json,
    "redact": redact,
    "text": encode_basestring,
}
_RESERVED_NAMES: Final = frozenset({*_FUNCTIONS, "base", "item", "members", "self"})
