"""Paths and expressions: their meaning, and their refusals (R5.3, S6)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.flow.definition.diagnostics import Diagnostics
from headway.core.flow.definition.paths import BadPath, Path, PathScope, Root, parse_path, resolve
from headway.core.flow.definition.predicates import DEPTH_MAX, NODE_COUNT_MAX, parse_predicate
from tests.core.flow import random_flows
from tests.core.flow.reference_values import Json, holds

SCOPE = PathScope(
    params={"n": 3, "text": "b", "list": [1, {"deep": "x"}]},
    shared={"a.b": "bare", "none": None, "flag": True},
    input={"v": "10", "list": ["p", "q"]},
)


@pytest.mark.proves("R5.2")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$params.n", 3),
        ("$params.list[1].deep", "x"),
        ("$params.list[7]", None),
        ("$params.text.more", None),
        ("$params.n[0]", None),
        ("$shared.flag", True),
        ("$shared.a.b", None),
        ("a.b", "bare"),
        ("nowhere", None),
        ("$input", SCOPE.input),
        ("$input.list[1]", "q"),
    ],
)
def test_path_reads_a_value_or_null(text: str, value: Any) -> None:
    assert resolve(parse_path(text), SCOPE) == value


@pytest.mark.proves("R5.2")
@pytest.mark.parametrize(
    "text",
    ["", "$", "$x", "$params", "$params.", "$params..a", "$params.a[", "$params.a[-1]", "$inputs",
     "$shared.a[1]b", "$input.", "$shared.a]", "$params.a[1234567890]", "x" * 1_001,
     "$input" + "[0]" * 65],
)  # fmt: skip
def test_malformed_path_is_refused(text: str) -> None:
    with pytest.raises(BadPath):
        parse_path(text)


@pytest.mark.proves("R5.2")
def test_path_reports_the_shared_key_it_reads() -> None:
    assert parse_path("$shared.a.b[1]").shared_key == "a"
    assert parse_path("a.b").shared_key == "a.b"
    assert parse_path("$params.a").shared_key is None
    assert parse_path("$input") == Path(Root.INPUT, (), "$input")


@pytest.mark.proves("R5.3")
@pytest.mark.parametrize(
    ("expression", "is_true"),
    [
        ({"eq": ["$params.n", 3]}, True),
        ({"eq": ["$params.n", "3.0"]}, True),
        ({"eq": [9007199254740993, 9007199254740992]}, False),
        ({"lt": ["$params.n", "$input.v"]}, True),
        ({"lt": ["10", "9"]}, False),
        ({"lt": ["10", "9x"]}, True),
        ({"eq": ["$shared.flag", "true"]}, True),
        ({"eq": ["$shared.flag", 1]}, False),
        ({"eq": ["$shared.gone", None]}, True),
        ({"eq": ["$shared.none", "null"]}, False),
        ({"ne": ["$shared.gone", 0]}, True),
        ({"lt": ["$shared.gone", 0]}, False),
        ({"ge": ["$shared.gone", None]}, True),
        ({"le": [None, "$shared.none"]}, True),
        ({"gt": [None, None]}, False),
        ({"lt": [None, None]}, False),
        ({"ne": [None, None]}, False),
        ({"le": [None, 0]}, False),
        ({"ge": ["", None]}, False),
        ({"eq": [[1, {"a": 2.0}], [1.0, {"a": 2}]]}, True),
        ({"eq": ["$5", "$5"]}, True),
        ({"exists": "$params.n"}, True),
        ({"exists": "$shared.none"}, False),
        ({"in": ["$params.n", [1, 2, "3"]]}, True),
        ({"in": ["b", "abc"]}, True),
        ({"in": ["v", "$input"]}, True),
        ({"in": [None, [None]]}, True),
        ({"in": ["x", 7]}, False),
        ({"in": [None, "null"]}, False),
        ({"contains": ["$input.list", "q"]}, True),
        ({"contains": ["$input.list", "z"]}, False),
        ({"and": [{"eq": [1, 1]}, {"eq": [1, 2]}]}, False),
        ({"or": [{"eq": [1, 2]}, {"eq": [1, 1]}]}, True),
        ({"not": {"and": [{"eq": [1, 1]}, {"not": {"eq": [1, 2]}}]}}, False),
    ],
)
def test_expression_has_its_documented_meaning(expression: Json, is_true: bool) -> None:
    report = Diagnostics()
    predicate = parse_predicate(expression, "expr", report)
    assert report.errors == ()
    assert predicate.evaluate(SCOPE) is is_true


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("expression", "path"),
    [
        ("text", "expr"),
        ({}, "expr"),
        ({"eq": [1, 1], "ne": [1, 1]}, "expr"),
        ({"equals": [1, 1]}, "expr"),
        ({"and": []}, "expr.and"),
        ({"and": {"eq": [1, 1]}}, "expr.and"),
        ({"and": [{"eq": [1, 1]}, 3]}, "expr.and[1]"),
        ({"not": [{"eq": [1, 1]}]}, "expr.not"),
        ({"eq": [1]}, "expr.eq"),
        ({"eq": "$params.n"}, "expr.eq"),
        ({"or": [{"gt": [1, "$params..n"]}]}, "expr.or[0].gt[1]"),
        ({"exists": "n"}, "expr.exists"),
        ({"exists": 3}, "expr.exists"),
        ({"exists": "$shared.a["}, "expr.exists"),
    ],
)
def test_malformed_expression_is_refused_with_its_path(expression: Any, path: str) -> None:
    assert error_paths(expression) == [path]


def error_paths(expression: Any) -> list[str]:
    report = Diagnostics()
    parse_predicate(expression, "expr", report)
    return [error.path for error in report.errors]


def nested(depth: int, name: str = "not") -> Any:
    expression: Any = {"eq": [1, 1]}
    for _ in range(depth - 1):
        expression = {name: expression if name == "not" else [expression]}
    return expression


@pytest.mark.proves("S6")
@pytest.mark.parametrize("name", ["not", "and", "or"])
def test_depth_of_an_expression_is_limited(name: str) -> None:
    assert error_paths(nested(DEPTH_MAX, name)) == []
    assert len(error_paths(nested(DEPTH_MAX + 1, name))) == 1
    assert len(error_paths(nested(100_000, name))) == 1


@pytest.mark.proves("S6")
def test_width_of_an_expression_is_limited() -> None:
    assert error_paths({"or": [{"eq": [1, 1]}] * (NODE_COUNT_MAX - 1)}) == []
    assert error_paths({"or": [{"eq": [1, 1]}] * NODE_COUNT_MAX}) == ["expr"]
    assert len(error_paths({"or": [3] * 100_000})) <= NODE_COUNT_MAX + 1


@pytest.mark.proves("R5.3")
@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_expressions_evaluate_as_in_the_reference(chance: Any) -> None:
    expression = random_flows.expression(chance, depth=4)
    shared = {"a": [1, 2], "b": "3", "c": {"v": 2.5}}
    given_input = chance.choice([None, 3, "x", {"v": "3"}, [1, 2]])
    report = Diagnostics()
    predicate = parse_predicate(expression, "e", report)
    assert report.errors == ()
    scope = PathScope(random_flows.PARAMS, shared, given_input)
    assert predicate.evaluate(scope) == holds(expression, random_flows.PARAMS, shared, given_input)
