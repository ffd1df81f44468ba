"""Any value given as a definition results in a flow or in a list of errors (I15, S6)."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.errors import InvalidFlow
from headway.core.flow.definition.definition import Flow
from headway.core.flow.engine.fields import NODE_FIELDS
from headway.core.flow.parse import parse_flow
from tests.core.flow import random_flows
from tests.core.flow.scenes import a_definition

FIELD_NAMES = (
    *NODE_FIELDS, "kind", "subflow", "start", "nodes", "edges", "from", "to", "action", "expr",
    "input_key", "and", "not", "eq", "a", "executor", "choice", "$params.a", "$shared.", "_rt", "",
)  # fmt: skip
ALL = random_flows.Feature(
    call_timeouts=True, subflow_timeouts=True, concurrent_fail_fast=True, late_signals=True
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(FIELD_NAMES)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.sampled_from(FIELD_NAMES), st.text(max_size=3)), inner, max_size=5
        ),
    ),
    max_leaves=25,
)
SETTINGS = settings(max_examples=100, deadline=None, database=None, derandomize=True)


def check_outcome(definition: Any) -> None:
    flow, errors = parse(definition)
    assert (flow is None) == bool(errors)
    assert all(path and problem for path, problem in errors)
    assert flow is None or flow.start in flow.nodes


def parse(definition: Any) -> tuple[Flow | None, tuple[tuple[str, str], ...]]:
    try:
        return parse_flow(definition).flow, ()
    except InvalidFlow as error:
        return None, error.errors


@pytest.mark.proves("I15")
@SETTINGS
@given(VALUES)
def test_any_value_is_parsed_or_refused(value: Any) -> None:
    check_outcome(value if isinstance(value, dict) else {"start": "a", "nodes": value})
    check_outcome(a_definition({"a": value}))


@pytest.mark.proves("I15")
@SETTINGS
@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    check_outcome(text)


@pytest.mark.proves("I15")
@SETTINGS
@given(st.randoms(use_true_random=False), VALUES)
def test_valid_flow_with_one_part_replaced_is_parsed_or_refused(chance: Random, value: Any) -> None:
    definition = random_flows.a_flow(chance, ALL)
    spot: Any = definition
    while True:
        names = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
        name = chance.choice(names)
        if not isinstance(spot[name], dict | list) or not spot[name] or chance.randrange(3) == 0:
            spot[name] = value
            break
        spot = spot[name]
    check_outcome(definition)
    try:
        text = json.dumps(definition)
    except ValueError:
        return
    check_outcome(text)


@pytest.mark.proves("S6")
def test_deeply_nested_values_are_parsed_or_refused() -> None:
    deep: Any = 1
    for name in ["and", "x", "subflow", "nodes"] * 5_000:
        deep = {name: deep} if name != "and" else [deep]
    check_outcome(deep)
    check_outcome(a_definition({"a": {"kind": "choice", "choice_cases": deep, "params": deep}}))
