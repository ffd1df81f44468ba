"""The definitions in docs/flows.md are valid; its `choice_cases` example works as described."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from headway.core.flow.definition.definition import ErrorPolicy
from headway.core.flow.parse import parse_flow
from headway.core.run.status import RunStatus
from tests.core.flow.driver import Driver

TEXT: Final = (Path(__file__).parents[3] / "docs" / "flows.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"^```json[^\n]*\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
CHOICE: Final = re.findall(r'^```json title="choice"\n(.*?)^```$', TEXT, re.DOTALL | re.MULTILINE)


def test_every_definition_of_the_page_can_be_published_without_a_warning() -> None:
    for text in BLOCKS:
        parsed = parse_flow(text, default_policy=ErrorPolicy.FAIL)
        assert [warning for warning in parsed.warnings if "loop" not in warning.problem] == []


@pytest.mark.proves("R5.12")
@pytest.mark.parametrize(
    ("order", "nodes"),
    [
        ({"total": 7, "customer": "bob"}, ["size", "accept"]),
        ({"total": 100, "customer": "ann"}, ["size", "accept"]),
        ({"total": 100, "customer": "bob"}, ["size"]),
        ({"customer": "bob"}, ["size", "refuse"]),
        ({"total": -1}, ["size", "refuse"]),
    ],
)
def test_first_case_that_holds_selects_the_action(order: Any, nodes: list[str]) -> None:
    (text,) = CHOICE
    driver = Driver(parse_flow(json.loads(text)).flow, {"order": order}).run()
    assert [row.node_key for row in driver.rows] == nodes
    if nodes == ["size"]:
        assert (driver.end, driver.state.frames[0].node.key) == (None, "ask")
    if nodes[-1] == "refuse":
        assert driver.end == (RunStatus.FAILED, "an order needs a total")
        assert driver.state.error_code == "no_total"
