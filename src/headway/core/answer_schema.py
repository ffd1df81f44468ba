"""The JSON Schema of an answer: what a page can show as a form, and nothing more.

Only words that are understood here are taken, so that a schema never promises a check that nobody
makes.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from headway.core.errors import InvalidInput

Mismatch = tuple[str, str]
"""The place, and the problem."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_ANNOTATIONS: Final = frozenset(
    {"$schema", "title", "description", "default", "examples", "format", "x-order"}
)
"""For whoever draws the form: they check nothing."""


def check_schema(schema: Any, *, field: str = "schema") -> None:
    """InvalidInput that names the first thing in `schema` that cannot be used."""
    if not isinstance(schema, dict):
        raise InvalidInput(field, "must be an object")
    for word, said in schema.items():
        if word in _ANNOTATIONS:
            continue
        check = _KEYWORD_CHECKS.get(word)
        if check is None:
            known = ", ".join(sorted(_KEYWORD_CHECKS))
            raise InvalidInput(f"{field}.{word}", f"is not understood; known are {known}")
        problem = check(said, f"{field}.{word}")
        if problem is not None:
            raise InvalidInput(f"{field}.{word}", problem)


def find_mismatch(
    schema: Mapping[str, Any], value: Any, *, field: str = "answer"
) -> Mismatch | None:
    """The first place at which `value` does not fit `schema`, which was checked; None: it fits."""
    fault = _find_own_mismatch(schema, value, field)
    if fault is not None:
        return fault
    if isinstance(value, dict):
        return _find_member_mismatch(schema, value, field)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            fault = find_mismatch(schema["items"], item, field=f"{field}[{index}]")
            if fault is not None:
                return fault
    return None


def _find_own_mismatch(schema: Mapping[str, Any], value: Any, place: str) -> Mismatch | None:
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_TYPES[name](value) for name in types):
        return place, f"must be of type {' or '.join(types)}"
    if "enum" in schema and not any(_is_equal(value, one) for one in schema["enum"]):
        return place, f"must be one of: {', '.join(map(_to_json, schema['enum']))}"
    if "const" in schema and not _is_equal(value, schema["const"]):
        return place, f"must be {_to_json(schema['const'])}"
    if "anyOf" in schema and all(find_mismatch(one, value) is not None for one in schema["anyOf"]):
        return place, "fits none of what it may be"
    for word, (measure, is_right, problem) in _LIMITS.items():
        size = measure(value)
        if word in schema and size is not None and not is_right(size, schema[word]):
            return place, problem.format(schema[word])
    return None


def _find_member_mismatch(
    schema: Mapping[str, Any], value: Mapping[str, Any], place: str
) -> Mismatch | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{place}.{name}", "is missing"
    for name, member in value.items():
        if name in properties:
            fault = find_mismatch(properties[name], member, field=f"{place}.{name}")
            if fault is not None:
                return fault
        elif schema.get("additionalProperties", True) is False:
            return f"{place}.{name}", "is not asked for"
    return None


def _is_equal(one: Any, other: Any) -> bool:
    return _to_json(one) == _to_json(other)  # In Python, but not in JSON, true equals 1.


def _to_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _measure_number(value: Any) -> Any:
    return value if _is_number(value) else None


def _length_measure(kind: type[str] | type[list[Any]]) -> Callable[[Any], Any]:
    return lambda value: len(value) if isinstance(value, kind) else None


_LIMITS: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any, Any], bool], str]]] = {
    "minimum": (_measure_number, lambda size, limit: size >= limit, "must be at least {}"),
    "maximum": (_measure_number, lambda size, limit: size <= limit, "must be at most {}"),
    "minLength": (
        _length_measure(str),
        lambda size, limit: size >= limit,
        "must have at least {} characters",
    ),
    "maxLength": (
        _length_measure(str),
        lambda size, limit: size <= limit,
        "must have at most {} characters",
    ),
    "minItems": (
        _length_measure(list),
        lambda size, limit: size >= limit,
        "must have at least {} items",
    ),
    "maxItems": (
        _length_measure(list),
        lambda size, limit: size <= limit,
        "must have at most {} items",
    ),
}


def _check_type(said: Any, _: str) -> str | None:
    names = [said] if isinstance(said, str) else said
    is_known = isinstance(names, list) and names and all(name in _TYPES for name in names)
    return None if is_known else f"must be one or a list of: {', '.join(_TYPES)}"


def _check_properties(said: Any, place: str) -> str | None:
    if not isinstance(said, dict):
        return "must be an object"
    for name, schema in said.items():
        check_schema(schema, field=f"{place}.{name}")
    return None


def _check_any_of(said: Any, place: str) -> str | None:
    if not isinstance(said, list) or not said:
        return "must be a list of schemas"
    for index, schema in enumerate(said):
        check_schema(schema, field=f"{place}[{index}]")
    return None


def _check_items(said: Any, place: str) -> str | None:
    check_schema(said, field=place)
    return None


def _check_required(said: Any, _: str) -> str | None:
    is_right = isinstance(said, list) and all(isinstance(name, str) for name in said)
    return None if is_right else "must be a list of names"


def _check_flag(said: Any, _: str) -> str | None:
    return None if isinstance(said, bool) else "must be true or false"


def _check_list(said: Any, _: str) -> str | None:
    return None if isinstance(said, list) and said else "must be a list that is not empty"


def _check_number(said: Any, _: str) -> str | None:
    return None if _is_number(said) else "must be a number"


_KEYWORD_CHECKS: Final[Mapping[str, Callable[[Any, str], str | None]]] = {
    "type": _check_type,
    "properties": _check_properties,
    "required": _check_required,
    "additionalProperties": _check_flag,
    "items": _check_items,
    "anyOf": _check_any_of,
    "enum": _check_list,
    "const": lambda _, __: None,
    **dict.fromkeys(_LIMITS, _check_number),
}
