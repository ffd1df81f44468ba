"""The kind `choice`: the first true case gives the action. The output is the input."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.definition.paths import PathScope
from headway.core.flow.engine.node_handler import NodeHandler
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import StepContext


class ChoiceHandler(NodeHandler):
    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        if not node.choice_cases:
            diagnostics.add_warning(
                join_path(path, "choice_cases"),
                "is empty, so the default action is always taken; add a case",
            )

    def enter(self, context: StepContext, frame: Frame) -> None:
        scope = PathScope(frame.merged_params, frame.shared, frame.input)
        cases = frame.node.choice_cases
        action = next((case.action for case in cases if case.expr.evaluate(scope)), None)
        context.succeed(frame, frame.input, action=action)
