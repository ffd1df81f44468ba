"""`local`: a Python function that is registered in the process that walks the flow."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics
from headway.core.flow.engine.calls import SingleCallHandler
from headway.core.flow.engine.node_handler import require_text


class LocalHandler(SingleCallHandler):
    def check(self, node: Node, place: str, report: Diagnostics) -> None:
        require_text(node, "function", place, report)
