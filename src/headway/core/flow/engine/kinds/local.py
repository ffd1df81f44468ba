"""`local`: a Python function that is registered in the process that walks the flow."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report
from headway.core.flow.engine.calls import OneCall
from headway.core.flow.engine.node_handler import need_text


class Local(OneCall):
    def check(self, node: Node, place: str, report: Report) -> None:
        need_text(node, "function", place, report)
