"""A definition is accepted as a whole, or every error is reported with its path (R5.2, I15, S6)."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.errors import InvalidFlow
from headway.core.flow.canonical import canonical_json
from headway.core.flow.definition.definition import FailureStrategy, Kind, ParallelMode
from headway.core.flow.definition.diagnostics import DIAGNOSTIC_COUNT_MAX
from headway.core.flow.definition.graph import AvailableCallees
from headway.core.flow.definition.mermaid import to_mermaid
from headway.core.flow.parse import EDGE_COUNT_MAX, NODE_COUNT_MAX, SUBFLOW_DEPTH_MAX, parse_flow
from tests.core.flow import random_flows
from tests.core.flow.reference_values import Json
from tests.core.flow.scenes import a_definition, executor

CHOICE_CASE = {"action": "x", "expr": {"eq": [1, 1]}}
ALL = random_flows.Feature(
    call_timeouts=True, subflow_timeouts=True, concurrent_fail_fast=True, late_signals=True
)


def error_paths(definition: Any) -> list[str]:
    with pytest.raises(InvalidFlow) as raised:
        parse_flow(definition)
    assert all(problem for _, problem in raised.value.errors)
    return [path for path, _ in raised.value.errors]


def warnings(definition: Json, **callees: Any) -> list[tuple[str, str]]:
    return list(
        parse_flow(definition, available=AvailableCallees(**callees) if callees else None).warnings
    )


@pytest.mark.proves("I15")
def test_every_error_is_reported_with_its_path() -> None:
    definition = {
        "start": "gone",
        "nodes": {
            "a": {"kind": "unheard"},
            "b": {"kind": "executor"},
            "c d": executor(max_retries=-1, post={"output_key": 3, "action_key": "$x"}),
            "e": {
                "kind": "choice",
                "choice_cases": [CHOICE_CASE, {"action": "", "expr": {"eq": 1}}],
            },
            "f": {"kind": "foreach", "service": "s", "flow": "f", "prep": {"input_key": "$params"}},
            "g": {"kind": "foreach", "service": "s", "flow": "f"},
            "h": {"kind": "timer", "params": {"delay_ms": "soon"}},
            "i": {"kind": "wait_event", "params": {"signal_key": "$shared."}},
            "j": {"kind": "subflow", "subflow": {"start": "x", "nodes": {"y": executor()}}},
            "k": "text",
        },
        "edges": [
            {"from": "b", "to": "nowhere"},
            {"from": "", "to": "b"},
            {"from": "b", "action": "x", "to": ""},
            {"from": "b", "action": "x", "to": "b"},
            {"from": "lost", "action": 5},
            7,
        ],
    }
    assert sorted(error_paths(definition)) == [
        "edges[0].to",
        "edges[1].from",
        "edges[3]",
        "edges[4].action",
        "edges[5]",
        "nodes.a.kind",
        "nodes.b.service",
        "nodes.e.choice_cases[1].action",
        "nodes.e.choice_cases[1].expr.eq",
        "nodes.f.prep.input_key",
        "nodes.g",
        "nodes.g.prep",
        "nodes.h.params.delay_ms",
        "nodes.i.params.signal_key",
        "nodes.j.subflow.start",
        "nodes.k",
        'nodes["c d"].max_retries',
        'nodes["c d"].post.action_key',
        'nodes["c d"].post.output_key',
        "start",
    ]


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "strict JSON"),
        ("{", "strict JSON"),
        ('{"start":"a","start":"b"}', "'start' occurs twice"),
        ('{"start":NaN}', "NaN"),
        ('{"start":1e999}', "is out of range"),
        ('{"start":' + "9" * 500 + "}", "500 digits"),
        ('{"start":"\\ud800"}', "surrogate"),
        ('{"start":"\\u0000"}', "NUL"),
        ("[" * 100_000, "nested deeper"),
        ('{"not":' * 10_000 + "1" + "}" * 10_000, "nested deeper"),
        ("[]", "must be an object"),
        ('"' + "x" * (1 << 20) + '"', "the limit is"),
    ],
)
def test_json_of_a_definition_is_parsed_strictly(text: str, problem: str) -> None:
    with pytest.raises(InvalidFlow, match=problem) as raised:
        parse_flow(text)
    assert raised.value.errors[0][0].startswith("definition")


@pytest.mark.proves("R5.3")
@pytest.mark.parametrize("kind", Kind)
def test_each_kind_is_accepted_with_its_required_fields_only(kind: Kind) -> None:
    required: dict[Kind, Json] = {
        Kind.EXECUTOR: {"service": "s"},
        Kind.LOCAL: {"function": "f"},
        Kind.FLOW_REF: {"flow": "f"},
        Kind.FOREACH: {"function": "f", "prep": {"input_key": "list"}},
        Kind.SUBFLOW: {"subflow": a_definition({"a": executor()})},
        Kind.FAIL: {"params": {"message": "no"}},
    }
    node = {"kind": kind.value, **required.get(kind, {})}
    assert parse_flow(a_definition({"a": node})).flow.nodes["a"].kind is kind
    if kind in required:
        assert error_paths(a_definition({"a": {"kind": kind.value}}))


@pytest.mark.proves("R5.15")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("exec_type", "local_func"),
        ("Exec_Type", "script"),
        ("func", "shout"),
        ("script", {"cmd": "rm"}),
        ("parallel_execs", [{"service": "a"}]),
        ("foreach_execs", [1]),
        ("subflow_execs", {"a": 1}),
        ("later_execs", True),
    ],
)
@pytest.mark.parametrize("is_within", [False, True], ids=["outside", "in a subflow"])
def test_unsupported_field_that_changes_the_meaning_is_refused_with_its_path(
    name: str, value: Any, is_within: bool
) -> None:
    definition = a_definition({"a": executor(**{name: value})})
    path = f"nodes.a.{name}"
    if is_within:
        path = f"nodes.s.subflow.{path}"
        definition = a_definition({"s": {"kind": "subflow", "subflow": definition}})
    with pytest.raises(InvalidFlow) as refused:
        parse_flow(definition)
    assert [error[0] for error in refused.value.errors] == [path]


@pytest.mark.proves("R5.15")
def test_unsupported_field_with_an_empty_value_is_accepted() -> None:
    nothing: Json = {
        "exec_type": "http",
        "func": "",
        "script": None,
        "parallel_execs": [],
        "x_execs": {},
    }
    published = parse_flow(a_definition({"a": executor(**nothing)}))
    assert published.warnings == ()
    assert published.flow == parse_flow(a_definition({"a": executor()})).flow


@pytest.mark.proves("R5.15")
def test_unknown_fields_are_listed_apart_from_other_warnings() -> None:
    nodes = {"a": executor(colour="red", prep={"colour": 1}), "b": executor()}
    published = parse_flow(a_definition(nodes))
    unknown = {path for path, _ in published.unknown_fields}
    assert unknown == {"nodes.a.colour", "nodes.a.prep.colour"}
    assert {path for path, _ in published.warnings} == unknown | {"nodes.b"}


@pytest.mark.proves("R5.2")
def test_parsed_fields_have_the_values_of_the_definition() -> None:
    node = {
        "kind": "parallel",
        "parallel_services": ["s", "t"],
        "parallel_mode": "concurrent",
        "max_parallel": 2,
        "failure_strategy": "collect_errors",
        "max_retries": 2,
        "wait_ms": 3.0,
        "max_attempts": 4,
        "attempt_delay_ms": 5,
        "weighted_by_load": True,
        "timeout_ms": 6,
        "on_error": "guard",
        "default_action": "d",
        "params": {"x": 1},
    }
    parsed = parse_flow(a_definition({"a": node}, {("a", ""): ""})).flow.nodes["a"]
    assert parsed.parallel_mode is ParallelMode.CONCURRENT
    assert parsed.failure_strategy is FailureStrategy.COLLECT_ERRORS
    assert (parsed.max_retries, parsed.wait_ms, parsed.max_attempts, parsed.timeout_ms) == (
        2,
        3,
        4,
        6,
    )
    assert parsed.edges == {"default": ""}
    assert parsed.on_error == {"*": "guard"}


@pytest.mark.proves("R5.6")
def test_field_names_of_any_case_and_empty_values_are_accepted() -> None:
    definition = {
        "Start": "a",
        "NODES": {
            "a": {
                "Kind": "executor",
                "SERVICE": "s",
                "prep": None,
                "post": {"Output_Key": "", "action_static": None},
                "parallel_mode": "",
                "subflow": None,
                "choice_cases": None,
            }
        },
        "Edges": None,
    }
    published = parse_flow(definition)
    assert published.flow.nodes["a"].service == "s"
    assert published.flow == parse_flow(a_definition({"a": executor(max_attempts=0)})).flow
    definition["start"] = "a"
    assert error_paths(definition) == ["start"]


@pytest.mark.proves("R5.6")
def test_cases_of_a_choice_have_field_names_of_any_case() -> None:
    def choosing(**case: Any) -> Json:
        return a_definition({"a": {"kind": "choice", "choice_cases": [case]}})

    parsed = parse_flow(choosing(Action="x", EXPR={"eq": [1, 1]}, note="n"))
    assert parsed.flow == parse_flow(choosing(**CHOICE_CASE)).flow
    assert [path for path, _ in parsed.warnings] == ["nodes.a.choice_cases[0].note"]
    assert error_paths(choosing(**CHOICE_CASE, Action="y")) == ["nodes.a.choice_cases[0].Action"]
    assert error_paths(choosing(action="x", expr=None)) == ["nodes.a.choice_cases[0].expr"]


@pytest.mark.proves("R5.2")
def test_unknown_and_meaningless_fields_are_warnings() -> None:
    node = executor(colour="red", choice_key="x", failure_strategy="retry", subflow={"nodes": 1})
    definition = a_definition({"a": node}) | {"title": "t"}
    definition["edges"] = [{"from": "a", "note": "n"}]
    assert sorted(path for path, _ in warnings(definition)) == [
        "edges[0].note",
        "nodes.a.choice_key",
        "nodes.a.colour",
        "nodes.a.failure_strategy",
        "nodes.a.subflow",
        "title",
    ]


@pytest.mark.proves("R5.2")
def test_unreachable_nodes_are_warnings() -> None:
    nodes = {"a": executor(), "b": executor(), "c": executor(), "d": executor()}
    definition = a_definition(nodes, {("a", "x"): "b", ("c", "x"): "d"})
    assert warnings(definition) == [
        ("nodes.c", "is never reached; add an edge to it or remove it"),
        ("nodes.d", "is never reached; add an edge to it or remove it"),
    ]


@pytest.mark.proves("R5.2")
def test_loop_without_a_wait_is_a_warning() -> None:
    timer = {"kind": "timer", "params": {"delay_ms": 1}}
    round_trip = {("a", "x"): "b", ("b", "x"): "a"}
    assert warnings(a_definition({"a": executor(), "b": timer}, round_trip)) == []
    [(path, problem)] = warnings(a_definition({"a": executor(), "b": executor()}, round_trip))
    assert (path, problem) == (
        "nodes.a",
        "is in a loop of 2 nodes without a wait; make sure that it ends, or add a timer",
    )
    inner = a_definition({"i": executor()}, {("i", "x"): "i"})
    [(path, problem)] = warnings(a_definition({"s": {"kind": "subflow", "subflow": inner}}))
    assert path == "nodes.s.subflow.nodes.i"
    assert "a loop of 1 node" in problem


@pytest.mark.proves("R5.2")
def test_missing_service_function_or_flow_is_a_warning() -> None:
    nodes = {
        "a": executor(),
        "b": {"kind": "local", "function": "f"},
        "c": {"kind": "flow_ref", "flow": "g"},
        "d": {"kind": "parallel", "parallel_services": ["s", "t"]},
    }
    definition = a_definition(nodes, {("a", "x"): "b", ("b", "x"): "c", ("c", "x"): "d"})
    assert warnings(definition) == []
    assert warnings(definition, services={"s", "t"}, functions={"f"}, flows={"g"}) == []
    assert [path for path, _ in warnings(definition, services={"s"})] == [
        "nodes.b",
        "nodes.c",
        "nodes.d",
    ]


@pytest.mark.proves("R5.2")
def test_missing_parameters_that_the_run_may_supply_are_a_warning() -> None:
    nodes = {"a": {"kind": "timer"}, "b": {"kind": "approval"}, "c": {"kind": "parallel"}}
    definition = a_definition(nodes, {("a", "x"): "b", ("b", "x"): "c"})
    assert [path for path, _ in warnings(definition)] == [
        "nodes.a.params.delay_ms",
        "nodes.b.params.approval_key",
        "nodes.c.params.services",
    ]


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize("name", ["output_key", "error_key"])
def test_output_under_the_reserved_key_of_the_run_state_is_refused(name: str) -> None:
    assert error_paths(a_definition({"a": executor(post={name: "_rt"})})) == [
        f"nodes.a.post.{name}"
    ]
    mapped = executor(post={"output_map": {"_rt": "x"}})
    assert error_paths(a_definition({"a": mapped})) == ["nodes.a.post.output_map._rt"]


# Sizes.


@pytest.mark.proves("S6")
def test_number_of_nodes_of_a_flow_is_limited() -> None:
    keys = [f"n{at}" for at in range(NODE_COUNT_MAX)]
    edges = {(key, "x"): keys[(at + 1) % len(keys)] for at, key in enumerate(keys)}
    definition = a_definition({key: executor() for key in keys}, edges)
    assert len(warnings(definition)) == 1
    definition["nodes"]["one more"] = executor()
    assert error_paths(definition) == ["nodes"]
    inner = a_definition({key: executor() for key in keys})
    assert error_paths(a_definition({"s": {"kind": "subflow", "subflow": inner}})) == [
        "nodes.s.subflow.nodes"
    ]


@pytest.mark.proves("S6")
def test_number_of_edges_of_a_flow_is_limited() -> None:
    edges = {("a", f"x{at}"): "a" for at in range(EDGE_COUNT_MAX)}
    assert parse_flow(a_definition({"a": executor()}, edges)).flow.nodes["a"].edges["x9"] == "a"
    edges["a", "one more"] = "a"
    assert error_paths(a_definition({"a": executor()}, edges)) == ["edges"]


@pytest.mark.proves("S6")
def test_nesting_of_subflows_is_limited() -> None:
    definition = a_definition({"a": executor()})
    for _ in range(SUBFLOW_DEPTH_MAX):
        definition = a_definition({"s": {"kind": "subflow", "subflow": definition}})
    parse_flow(json.dumps(definition))
    definition = a_definition({"s": {"kind": "subflow", "subflow": definition}})
    assert len(error_paths(json.dumps(definition))) == 1


@pytest.mark.proves("I15")
def test_first_errors_are_listed_and_further_errors_are_counted() -> None:
    edges = {("a", f"x{at}"): "gone" for at in range(3_000)}
    listed = error_paths(a_definition({"a": executor()}, edges))
    assert len(listed) == DIAGNOSTIC_COUNT_MAX + 1
    assert listed[-1] == "definition"


# Other forms.


@pytest.mark.proves("R5.2")
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_flow_is_unchanged_after_encoding_and_parsing(chance: Any) -> None:
    flow = parse_flow(random_flows.a_flow(chance, ALL)).flow
    text = canonical_json(flow)
    assert parse_flow(text).flow == flow
    assert canonical_json(parse_flow(text).flow) == text


@pytest.mark.proves("R5.2")
def test_canonical_form_contains_only_meaningful_fields() -> None:
    node = executor(
        max_retries=0, max_attempts=0, colour="red", post={"output_key": ""}, on_error={}
    )
    definition = a_definition({"a": node}, {("a", ""): ""})
    assert json.loads(canonical_json(parse_flow(definition).flow)) == {
        "start": "a",
        "nodes": {"a": {"kind": "executor", "service": "s"}},
        "edges": [{"from": "a", "action": "default", "to": ""}],
        "error_policy": "follow_default",
    }


@pytest.mark.proves("S8")
def test_diagram_escapes_the_keys_of_nodes() -> None:
    evil = 'x"]; click a "javascript:alert(1)" %%{init}%% <b>&#35;\n end'
    inner = a_definition({evil: executor(service=evil)}, {(evil, evil): ""})
    nodes: dict[str, Json] = {evil: {"kind": "subflow", "subflow": inner}}
    nodes["ok"] = {"kind": "choice"}
    drawn = to_mermaid(parse_flow(a_definition(nodes, {(evil, "default"): "ok"})).flow)
    lines = drawn.splitlines()
    assert lines[0] == "flowchart TD"
    labels = [part for line in lines for part in line.split('"')[1::2]]
    assert len(labels) == 4
    assert all(re.fullmatch(r"([A-Za-z0-9 _.,:/-]|#[0-9]+;)*", label) for label in labels)
    bare = re.sub('"[^"]*"', "", drawn)
    assert "click" not in bare
    assert re.fullmatch(r"[A-Za-z0-9_\s()\[\]{}|>-]*", bare)
