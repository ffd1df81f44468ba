"""`flow_ref`: another published flow, as a child run. Its shared state at the end is the result."""

from headway.core.flow.calls import OneCall
from headway.core.flow.definition import Node
from headway.core.flow.faults import Report
from headway.core.flow.rules import need_text


class FlowRef(OneCall):
    def check(self, node: Node, place: str, report: Report) -> None:
        need_text(node, "flow", place, report)
