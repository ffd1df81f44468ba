"""`flow_ref`: another published flow, as a child run. Its shared state at the end is the result."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics
from headway.core.flow.engine.calls import SingleCallHandler
from headway.core.flow.engine.node_handler import require_text


class FlowRefHandler(SingleCallHandler):
    def check(self, node: Node, place: str, report: Diagnostics) -> None:
        require_text(node, "flow", place, report)
