"""`flow_ref`: another published flow, as a child run. Its shared state at the end is the result."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report
from headway.core.flow.engine.calls import OneCall
from headway.core.flow.engine.node_handler import need_text


class FlowRef(OneCall):
    def check(self, node: Node, place: str, report: Report) -> None:
        need_text(node, "flow", place, report)
