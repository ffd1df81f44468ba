"""A new kind of node is complete only if everything that depends on the kind has it."""

import re
from pathlib import Path
from random import Random
from typing import Final

import pytest

from headway.core.flow.definition.definition import (
    AWAITED_PATH_PARAMS,
    BRANCHING_KINDS,
    CALLING_KINDS,
    WAITING_KINDS,
    Kind,
)
from headway.core.flow.definition.mermaid import _SHAPES
from headway.core.flow.engine.calls import SingleCallHandler
from headway.core.flow.engine.fan_out import FanOutHandler
from headway.core.flow.engine.kinds import HANDLERS
from headway.core.flow.engine.signal_waits import WaitHandler
from headway.services.flow.waiting_nodes import _REASONS
from tests.core.flow.random_flows import Feature, a_node

ROOT: Final = Path(__file__).parents[3]
INSTANT_KINDS: Final = {Kind.CHOICE, Kind.FAIL}
"""Kinds that neither call, wait nor contain nodes."""


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_kind_has_a_handler() -> None:
    assert HANDLERS.keys() == set(Kind)


def test_every_kind_is_in_one_of_the_sets_that_checks_and_explanations_use() -> None:
    groups = [CALLING_KINDS, BRANCHING_KINDS, WAITING_KINDS, {Kind.SUBFLOW}, INSTANT_KINDS]
    for kind in Kind:
        assert sum(kind in group for group in groups) == 1, kind


def test_sets_of_kinds_agree_with_the_handlers() -> None:
    def kinds_of(handler: type) -> set[Kind]:
        return {kind for kind in Kind if isinstance(HANDLERS[kind], handler)}

    assert kinds_of(SingleCallHandler) == CALLING_KINDS
    assert kinds_of(FanOutHandler) == BRANCHING_KINDS
    assert kinds_of(WaitHandler) == AWAITED_PATH_PARAMS.keys()
    assert kinds_of(WaitHandler) | {Kind.TIMER} == WAITING_KINDS


def test_every_kind_that_waits_has_a_reason_for_explanations() -> None:
    assert _REASONS.keys() == WAITING_KINDS


def test_every_kind_has_a_mermaid_shape() -> None:
    assert _SHAPES.keys() == set(Kind)


def test_every_kind_has_an_icon_on_the_page() -> None:
    assert set(re.findall(r'\[\s*"(\w+)",', read("web/src/flows/kinds.tsx"))) == set(Kind)


def test_every_kind_is_documented() -> None:
    _, _, section = read("docs/flows.md").partition("\n## The kinds\n")
    table = section.partition("\n\n**")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(Kind)


@pytest.mark.proves("R5.3")
def test_random_flows_contain_every_kind() -> None:
    chance = Random(1)
    nodes = [a_node(chance, Feature(), depth=1) for _ in range(500)]
    assert {node["kind"] for node in nodes} == set(Kind)
