"""`executor`: a service that some worker offers."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics
from headway.core.flow.engine.calls import SingleCallHandler
from headway.core.flow.engine.node_handler import require_text


class ExecutorHandler(SingleCallHandler):
    def check(self, node: Node, place: str, report: Diagnostics) -> None:
        require_text(node, "service", place, report)
