"""The subset of JSON Schema for answers: the keywords that a page can show as a form.

A schema with any other keyword is refused, so that no schema promises a check that is not made.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from headway.core.errors import InvalidInput

Mismatch = tuple[str, str]
"""The path of a value that does not match its schema, and a description of the problem."""


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
"""Keywords that only affect how the page shows the form. They do not restrict the answer."""


def check_schema(schema: Any, *, field: str = "schema") -> None:
    """Raise InvalidInput if a keyword of `schema` is invalid or not supported.

    The error names the first such keyword.
    """
    if not isinstance(schema, dict):
        raise InvalidInput(field, "must be an object")
    for keyword, value in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        check = _KEYWORD_CHECKS.get(keyword)
        if check is None:
            supported = ", ".join(sorted(_KEYWORD_CHECKS))
            problem = f"is not a supported keyword; supported keywords: {supported}"
            raise InvalidInput(f"{field}.{keyword}", problem)
        mismatch = check(value, f"{field}.{keyword}")
        if mismatch is not None:
            raise InvalidInput(f"{field}.{keyword}", mismatch)


def find_mismatch(
    schema: Mapping[str, Any], value: Any, *, field: str = "answer"
) -> Mismatch | None:
    """Return the first mismatch of `value` with `schema`, or None if `value` matches.

    The schema must have passed `check_schema`.
    """
    mismatch = _find_own_mismatch(schema, value, field)
    if mismatch is not None:
        return mismatch
    if isinstance(value, dict):
        return _find_member_mismatch(schema, value, field)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            mismatch = find_mismatch(schema["items"], item, field=f"{field}[{index}]")
            if mismatch is not None:
                return mismatch
    return None


def _find_own_mismatch(schema: Mapping[str, Any], value: Any, path: str) -> Mismatch | None:
    """Return the first mismatch of the value itself, ignoring its members and items."""
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_TYPES[name](value) for name in types):
        return path, f"must be of type {' or '.join(types)}"
    if "enum" in schema and not any(_is_equal(value, option) for option in schema["enum"]):
        return path, f"must be one of: {', '.join(map(_to_json, schema['enum']))}"
    if "const" in schema and not _is_equal(value, schema["const"]):
        return path, f"must be {_to_json(schema['const'])}"
    if "anyOf" in schema and all(find_mismatch(option, value) for option in schema["anyOf"]):
        return path, "does not match any allowed schema"
    for keyword, (measure, is_within, problem) in _LIMITS.items():
        size = measure(value)
        if keyword in schema and size is not None and not is_within(size, schema[keyword]):
            return path, problem.format(schema[keyword])
    return None


def _find_member_mismatch(
    schema: Mapping[str, Any], value: Mapping[str, Any], path: str
) -> Mismatch | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{path}.{name}", "is missing"
    for name, member in value.items():
        if name in properties:
            mismatch = find_mismatch(properties[name], member, field=f"{path}.{name}")
            if mismatch is not None:
                return mismatch
        elif schema.get("additionalProperties", True) is False:
            return f"{path}.{name}", "is not allowed"
    return None


def _is_equal(first: Any, second: Any) -> bool:
    return _to_json(first) == _to_json(second)  # In Python, unlike in JSON, True equals 1.


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


def _check_type(value: Any, _: str) -> str | None:
    names = [value] if isinstance(value, str) else value
    is_valid = isinstance(names, list) and names and all(name in _TYPES for name in names)
    return None if is_valid else f"must be one of these, or a list of them: {', '.join(_TYPES)}"


def _check_properties(value: Any, path: str) -> str | None:
    if not isinstance(value, dict):
        return "must be an object"
    for name, schema in value.items():
        check_schema(schema, field=f"{path}.{name}")
    return None


def _check_any_of(value: Any, path: str) -> str | None:
    if not isinstance(value, list) or not value:
        return "must be a list of schemas"
    for index, schema in enumerate(value):
        check_schema(schema, field=f"{path}[{index}]")
    return None


def _check_items(value: Any, path: str) -> str | None:
    check_schema(value, field=path)
    return None


def _check_required(value: Any, _: str) -> str | None:
    is_valid = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return None if is_valid else "must be a list of names"


def _check_flag(value: Any, _: str) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _check_list(value: Any, _: str) -> str | None:
    return None if isinstance(value, list) and value else "must be a non-empty list"


def _check_number(value: Any, _: str) -> str | None:
    return None if _is_number(value) else "must be a number"


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
