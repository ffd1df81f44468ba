"""`subflow`: a graph within the graph, with a shared state of its own, which is its output."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report, member
from headway.core.flow.engine.calls import TIMEOUT
from headway.core.flow.engine.node_handler import Rules
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import MILLISECOND, Walk
from headway.core.ids import Instant


class Subflow(Rules):
    """Its end is `Walk`'s affair, as the end of any flow; its run state is `run_state.py`'s."""

    short = "sf"

    def check(self, node: Node, place: str, report: Report) -> None:
        if node.subflow is None:
            report.fault(member(place, "subflow"), "is missing; a node of kind subflow needs it")

    def enter(self, walk: Walk, frame: Frame) -> None:
        node = frame.node
        assert node.subflow is not None
        if node.timeout_ms:
            frame.until = Instant(walk.now + node.timeout_ms * MILLISECOND)
        walk.push(frame, node.subflow)

    def look(self, walk: Walk, frame: Frame) -> None:
        if frame.until is not None and frame.until <= walk.now:
            walk.cut(frame)
            walk.fail_try(frame, TIMEOUT)
