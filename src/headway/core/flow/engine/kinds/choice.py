"""`choice`: the first case that holds gives the action. The output is the input."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report, member
from headway.core.flow.definition.paths import Scope
from headway.core.flow.engine.node_handler import Rules
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import Walk


class Choice(Rules):
    def check(self, node: Node, place: str, report: Report) -> None:
        if not node.choice_cases:
            report.warn(member(place, "choice_cases"), "is empty: the default is always taken")

    def enter(self, walk: Walk, frame: Frame) -> None:
        scope = Scope(frame.merged, frame.shared, frame.input)
        cases = frame.node.choice_cases
        action = next((case.action for case in cases if case.expr.holds(scope)), None)
        walk.succeed(frame, frame.input, action=action)
