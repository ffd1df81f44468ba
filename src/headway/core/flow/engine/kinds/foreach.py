"""The kind `foreach`: call a service, a function or a flow for each item of a list."""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.engine.fan_out import FanOutHandler
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import has_prep

ITEM_COUNT_MAX: Final = 100_000


class ForeachHandler(FanOutHandler):
    state_prefix = "fe"

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        callees = [name for name in (node.service, node.function, node.flow) if name]
        if len(callees) != 1:
            diagnostics.add_error(path, "must have exactly one of service, function and flow")
        if not has_prep(node):
            diagnostics.add_error(
                join_path(path, "prep"), "is missing; set input_key to the path of the list"
            )

    def resolve_branches(self, frame: Frame) -> None:
        if not isinstance(frame.input, list):
            raise ValueError("bad input: a foreach node needs a list")  # noqa: TRY004
        if len(frame.input) > ITEM_COUNT_MAX:
            raise ValueError(f"too many items: {len(frame.input):,}, limit: {ITEM_COUNT_MAX:,}")
        frame.items = frame.input
        frame.branch_count = len(frame.input)

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        return {**super().run_state(frame), "idx": frame.launched_count}
