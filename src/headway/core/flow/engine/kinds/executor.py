"""`executor`: a service that some worker offers."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report
from headway.core.flow.engine.calls import OneCall
from headway.core.flow.engine.node_handler import need_text


class Executor(OneCall):
    def check(self, node: Node, place: str, report: Report) -> None:
        need_text(node, "service", place, report)
