"""I15, S6: whatever comes as a definition, the answer is a flow or a list of faults."""

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
from tests.core.flow import drawing
from tests.core.flow.scenes import a_definition

WORDS = (*NODE_FIELDS, "kind", "subflow", "start", "nodes", "edges", "from", "to", "action", "expr",
         "input_key", "and", "not", "eq", "a", "executor", "choice", "$params.a", "$shared.", "_rt",
         "")  # fmt: skip
ALL = drawing.Feature(
    call_timeouts=True, subflow_timeouts=True, concurrent_fail_fast=True, late_signals=True
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(WORDS)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=3)), inner, max_size=5),
    ),
    max_leaves=25,
)
SETTINGS = settings(max_examples=100, deadline=None, database=None, derandomize=True)


def answer(definition: Any) -> None:
    flow, faults = told_of(definition)
    assert (flow is None) == bool(faults)
    assert all(place and problem for place, problem in faults)
    assert flow is None or flow.start in flow.nodes


def told_of(definition: Any) -> tuple[Flow | None, tuple[tuple[str, str], ...]]:
    try:
        return parse_flow(definition).flow, ()
    except InvalidFlow as error:
        return None, error.errors


@pytest.mark.proves("I15")
@SETTINGS
@given(VALUES)
def test_any_value_gets_a_defined_answer(value: Any) -> None:
    answer(value if isinstance(value, dict) else {"start": "a", "nodes": value})
    answer(a_definition({"a": value}))


@pytest.mark.proves("I15")
@SETTINGS
@given(st.text())
def test_any_text_gets_a_defined_answer(text: str) -> None:
    answer(text)


@pytest.mark.proves("I15")
@SETTINGS
@given(st.randoms(use_true_random=False), VALUES)
def test_a_good_flow_with_one_thing_replaced_gets_a_defined_answer(
    chance: Random, value: Any
) -> None:
    definition = drawing.a_flow(chance, ALL)
    spot: Any = definition
    while True:
        names = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
        name = chance.choice(names)
        if not isinstance(spot[name], dict | list) or not spot[name] or chance.randrange(3) == 0:
            spot[name] = value
            break
        spot = spot[name]
    answer(definition)
    try:
        text = json.dumps(definition)
    except ValueError:
        return
    answer(text)


@pytest.mark.proves("S6")
def test_what_is_very_deep_is_answered_whatever_it_is_made_of() -> None:
    deep: Any = 1
    for name in ["and", "x", "subflow", "nodes"] * 5_000:
        deep = {name: deep} if name != "and" else [deep]
    answer(deep)
    answer(a_definition({"a": {"kind": "choice", "choice_cases": deep, "params": deep}}))
