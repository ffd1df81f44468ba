"""`executor`: a service that some worker offers."""

from headway.core.flow.calls import OneCall
from headway.core.flow.definition import Node
from headway.core.flow.faults import Report
from headway.core.flow.rules import need_text


class Executor(OneCall):
    def check(self, node: Node, place: str, report: Report) -> None:
        need_text(node, "service", place, report)
