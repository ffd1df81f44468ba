"""`foreach`: a service, a function or a child run for each item of a list."""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report, member
from headway.core.flow.engine.fan_out import Fan
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import has_prep

ITEM_COUNT_MAX: Final = 100_000


class Foreach(Fan):
    short = "fe"

    def check(self, node: Node, place: str, report: Report) -> None:
        named = [name for name in (node.service, node.function, node.flow) if name]
        if len(named) != 1:
            report.fault(place, "a node of kind foreach needs one of service, function and flow")
        if not has_prep(node):
            report.fault(member(place, "prep"), "is missing; it says where the list comes from")

    def restore(self, frame: Frame) -> None:
        if not isinstance(frame.input, list):
            raise ValueError("bad input: a foreach node needs a list")  # noqa: TRY004
        if len(frame.input) > ITEM_COUNT_MAX:
            raise ValueError(f"too many items: {len(frame.input):,} of at most {ITEM_COUNT_MAX:,}")
        frame.items = frame.input
        frame.branch_count = len(frame.input)

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        return {**super().run_state(frame), "idx": frame.launched}
