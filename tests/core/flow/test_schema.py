"""The JSON Schema for editors accepts the definitions that publishing accepts (R5.2)."""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.errors import InvalidFlow
from headway.core.flow.definition_schema import definition_schema
from headway.core.flow.engine.fields import NODE_FIELDS, POST, PREP
from headway.core.flow.parse import parse_flow
from tests.core.flow import random_flows
from tests.core.flow.scenes import a_definition, executor

ALL = random_flows.Feature(
    call_timeouts=True, subflow_timeouts=True, concurrent_fail_fast=True, late_signals=True
)
SCHEMA = definition_schema()
Keyword = Callable[[Any, Any, Any], bool]
TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool}


def fits(value: Any, schema: Any) -> bool:
    """Return whether a value fits, by the JSON Schema keywords in use; others are an error."""
    return all(KEYWORDS[keyword](value, expected, schema) for keyword, expected in schema.items())


def _has_type(value: Any, expected: str) -> bool:
    if expected != "integer":
        return isinstance(value, TYPES[expected])
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool)


def _has_properties(value: Any, expected: Any) -> bool:
    return not isinstance(value, dict) or all(
        fits(value[name], schema) for name, schema in expected.items() if name in value
    )


def _has_additional_properties(value: Any, expected: Any, schema: Any) -> bool:
    properties = schema.get("properties", {})
    return not isinstance(value, dict) or all(
        fits(item, expected) for name, item in value.items() if name not in properties
    )


def _only_for(kind: type, is_good: Callable[[Any, Any], bool]) -> Keyword:
    """Return a keyword that constrains values of one type only."""
    return lambda value, expected, _: not isinstance(value, kind) or is_good(value, expected)


KEYWORDS: dict[str, Keyword] = {
    **dict.fromkeys(("$schema", "title", "description", "$defs", "then"), lambda *_: True),
    "$ref": lambda value, expected, _: fits(value, SCHEMA["$defs"][expected.rpartition("/")[2]]),
    "type": lambda value, expected, _: _has_type(value, expected),
    "enum": lambda value, expected, _: any(type(value) is type(x) and value == x for x in expected),
    "const": lambda value, expected, _: bool(value == expected),
    "not": lambda value, expected, _: not fits(value, expected),
    "anyOf": lambda value, expected, _: any(fits(value, branch) for branch in expected),
    "allOf": lambda value, expected, _: all(fits(value, branch) for branch in expected),
    "if": lambda value, expected, schema: not fits(value, expected) or fits(value, schema["then"]),
    "properties": lambda value, expected, _: _has_properties(value, expected),
    "patternProperties": _only_for(
        dict,
        lambda value, expected: all(
            fits(item, schema)
            for name, item in value.items()
            for pattern, schema in expected.items()
            if re.search(pattern, name)
        ),
    ),
    "additionalProperties": _has_additional_properties,
    "propertyNames": _only_for(
        dict, lambda value, expected: all(fits(name, expected) for name in value)
    ),
    "required": _only_for(dict, lambda value, expected: all(name in value for name in expected)),
    "items": _only_for(list, lambda value, expected: all(fits(item, expected) for item in value)),
    "minimum": lambda value, expected, _: not _has_type(value, "integer") or value >= expected,
    "maximum": lambda value, expected, _: not _has_type(value, "integer") or value <= expected,
    "minLength": _only_for(str, lambda value, expected: len(value) >= expected),
    "maxLength": _only_for(str, lambda value, expected: len(value) <= expected),
    "maxItems": _only_for(list, lambda value, expected: len(value) <= expected),
    "minProperties": _only_for(dict, lambda value, expected: len(value) >= expected),
    "maxProperties": _only_for(dict, lambda value, expected: len(value) <= expected),
}


@pytest.mark.proves("R5.2")
def test_schema_names_every_field() -> None:
    text = json.dumps(SCHEMA)
    for name in (*NODE_FIELDS, *PREP.fields, *POST.fields, "kind", "subflow", "from", "to"):
        assert f'"{name}"' in text


@pytest.mark.proves("R5.2")
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_published_definition_fits_the_schema(chance: Random) -> None:
    definition = random_flows.a_flow(chance, ALL)
    parse_flow(definition)
    assert fits(definition, SCHEMA)


@pytest.mark.proves("R5.2")
@pytest.mark.parametrize(
    "bad", [None, "", "http", 0, -1, True, 1.5, "x", "x" * 300, [], [1], {}, {"x": 1}]
)
@pytest.mark.parametrize("name", [*NODE_FIELDS, "kind", "exec_type", "func", "script", "a_execs"])
def test_schema_and_parser_agree_on_every_invalid_field(name: str, bad: Any) -> None:
    """The field belongs to a kind of node that uses it."""
    field = NODE_FIELDS.get(name)
    kinds = (
        ["executor"]
        if field is None or field.kinds is None
        else sorted(kind.value for kind in field.kinds)
    )
    node = {"kind": kinds[0], "service": "s", "function": "f", "flow": "g", name: bad}
    node.setdefault("prep", {"input_key": "x"})
    definition = a_definition({"a": node})
    assert fits(definition, SCHEMA) == (f"nodes.a.{name}" not in _invalid_fields(definition, name))


def _invalid_fields(definition: Any, name: str) -> set[str]:
    """Return the node's fields that cannot be parsed. A missing one is not the schema's concern."""
    try:
        parse_flow(definition)
    except InvalidFlow as error:
        errors = [(path, problem) for path, problem in error.errors if "missing" not in problem]
        return {f"nodes.a.{name}" for path, _ in errors if path.startswith(f"nodes.a.{name}")}
    return set()


@pytest.mark.proves("R5.2")
def test_schema_checks_the_nodes_the_edges_and_the_start() -> None:
    good = a_definition({"a": executor()}, {("a", "x"): "a"})
    assert fits(good, SCHEMA)
    assert not fits(good | {"start": 3}, SCHEMA)
    assert not fits(good | {"nodes": {}}, SCHEMA)
    assert not fits(good | {"edges": [{"action": "x"}]}, SCHEMA)
    assert not fits({"nodes": good["nodes"]}, SCHEMA)


@pytest.mark.proves("I15")
def test_schema_limits_the_names_that_are_stored() -> None:
    post = {"output_map": {"k" * 256: "x"}}
    assert not fits(a_definition({"a": executor(post=post)}), SCHEMA)
    case = {"action": "x" * 256, "expr": {"exists": "$shared.x"}}
    assert not fits(a_definition({"a": {"kind": "choice", "choice_cases": [case]}}), SCHEMA)
