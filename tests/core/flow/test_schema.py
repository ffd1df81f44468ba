"""R5.2: the JSON Schema for editors says what publishing says."""

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
from tests.core.flow import drawing
from tests.core.flow.scenes import a_definition, executor

ALL = drawing.Feature(
    call_timeouts=True, subflow_timeouts=True, concurrent_fail_fast=True, late_signals=True
)
SCHEMA = definition_schema()
Word = Callable[[Any, Any, Any], bool]
TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool}


def fits(value: Any, schema: Any) -> bool:
    """Whether it does, by the words of JSON Schema that ours uses; another word is an error."""
    return all(WORDS[word](value, told, schema) for word, told in schema.items())


def _has_type(value: Any, told: str) -> bool:
    if told != "integer":
        return isinstance(value, TYPES[told])
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool)


def _has_properties(value: Any, told: Any) -> bool:
    return not isinstance(value, dict) or all(
        fits(value[name], one) for name, one in told.items() if name in value
    )


def _has_others(value: Any, told: Any, schema: Any) -> bool:
    known = schema.get("properties", {})
    return not isinstance(value, dict) or all(
        fits(one, told) for name, one in value.items() if name not in known
    )


def _every(kind: type, is_good: Callable[[Any, Any], bool]) -> Word:
    """A word that says something of one type only."""
    return lambda value, told, _: not isinstance(value, kind) or is_good(value, told)


WORDS: dict[str, Word] = {
    **dict.fromkeys(("$schema", "title", "description", "$defs", "then"), lambda *_: True),
    "$ref": lambda value, told, _: fits(value, SCHEMA["$defs"][told.rpartition("/")[2]]),
    "type": lambda value, told, _: _has_type(value, told),
    "enum": lambda value, told, _: any(type(value) is type(x) and value == x for x in told),
    "const": lambda value, told, _: bool(value == told),
    "not": lambda value, told, _: not fits(value, told),
    "anyOf": lambda value, told, _: any(fits(value, one) for one in told),
    "allOf": lambda value, told, _: all(fits(value, one) for one in told),
    "if": lambda value, told, schema: not fits(value, told) or fits(value, schema["then"]),
    "properties": lambda value, told, _: _has_properties(value, told),
    "patternProperties": _every(
        dict,
        lambda value, told: all(
            fits(one, schema)
            for name, one in value.items()
            for pattern, schema in told.items()
            if re.search(pattern, name)
        ),
    ),
    "additionalProperties": _has_others,
    "propertyNames": _every(dict, lambda value, told: all(fits(name, told) for name in value)),
    "required": _every(dict, lambda value, told: all(name in value for name in told)),
    "items": _every(list, lambda value, told: all(fits(one, told) for one in value)),
    "minimum": lambda value, told, _: not _has_type(value, "integer") or value >= told,
    "maximum": lambda value, told, _: not _has_type(value, "integer") or value <= told,
    "minLength": _every(str, lambda value, told: len(value) >= told),
    "maxLength": _every(str, lambda value, told: len(value) <= told),
    "maxItems": _every(list, lambda value, told: len(value) <= told),
    "minProperties": _every(dict, lambda value, told: len(value) >= told),
    "maxProperties": _every(dict, lambda value, told: len(value) <= told),
}


@pytest.mark.proves("R5.2")
def test_the_schema_names_every_field() -> None:
    text = json.dumps(SCHEMA)
    for name in (*NODE_FIELDS, *PREP.fields, *POST.fields, "kind", "subflow", "from", "to"):
        assert f'"{name}"' in text


@pytest.mark.proves("R5.2")
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_what_is_published_fits_the_schema(chance: Random) -> None:
    definition = drawing.a_flow(chance, ALL)
    parse_flow(definition)
    assert fits(definition, SCHEMA)


@pytest.mark.proves("R5.2")
@pytest.mark.parametrize(
    "bad", [None, "", "http", 0, -1, True, 1.5, "x", "x" * 300, [], [1], {}, {"x": 1}]
)
@pytest.mark.parametrize("name", [*NODE_FIELDS, "kind", "exec_type", "func", "script", "a_execs"])
def test_a_bad_field_is_refused_by_both_or_by_neither(name: str, bad: Any) -> None:
    """Of a node to which the field means something."""
    field = NODE_FIELDS.get(name)
    kinds = (
        ["executor"]
        if field is None or field.kinds is None
        else sorted(kind.value for kind in field.kinds)
    )
    node = {"kind": kinds[0], "service": "s", "function": "f", "flow": "g", name: bad}
    node.setdefault("prep", {"input_key": "x"})
    definition = a_definition({"a": node})
    assert fits(definition, SCHEMA) == (f"nodes.a.{name}" not in _faulty(definition, name))


def _faulty(definition: Any, name: str) -> set[str]:
    """The fields of the node that cannot be read. That one is missing is no affair of a schema."""
    try:
        parse_flow(definition)
    except InvalidFlow as error:
        faults = [(place, problem) for place, problem in error.errors if "missing" not in problem]
        return {f"nodes.a.{name}" for place, _ in faults if place.startswith(f"nodes.a.{name}")}
    return set()


@pytest.mark.proves("R5.2")
def test_edges_and_starts_are_in_the_schema_too() -> None:
    good = a_definition({"a": executor()}, {("a", "x"): "a"})
    assert fits(good, SCHEMA)
    assert not fits(good | {"start": 3}, SCHEMA)
    assert not fits(good | {"nodes": {}}, SCHEMA)
    assert not fits(good | {"edges": [{"action": "x"}]}, SCHEMA)
    assert not fits({"nodes": good["nodes"]}, SCHEMA)


@pytest.mark.proves("I15")
def test_the_schema_bounds_the_names_that_are_stored() -> None:
    post = {"output_map": {"k" * 256: "x"}}
    assert not fits(a_definition({"a": executor(post=post)}), SCHEMA)
    case = {"action": "x" * 256, "expr": {"exists": "$shared.x"}}
    assert not fits(a_definition({"a": {"kind": "choice", "choice_cases": [case]}}), SCHEMA)
