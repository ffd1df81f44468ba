"""`subflow`: a graph within the graph, with a shared state of its own, which is its output."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.engine.calls import TIMEOUT
from headway.core.flow.engine.node_handler import NodeHandler
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import MILLISECOND, StepContext
from headway.core.ids import Instant


class SubflowHandler(NodeHandler):
    """Its end is `Walk`'s affair, as the end of any flow; its run state is `run_state.py`'s."""

    state_prefix = "sf"

    def check(self, node: Node, place: str, report: Diagnostics) -> None:
        if node.subflow is None:
            report.add_error(
                join_path(place, "subflow"), "is missing; a node of kind subflow needs it"
            )

    def enter(self, walk: StepContext, frame: Frame) -> None:
        node = frame.node
        assert node.subflow is not None
        if node.timeout_ms:
            frame.ends_at = Instant(walk.now + node.timeout_ms * MILLISECOND)
        walk.push_subflow(frame, node.subflow)

    def handle_wake(self, walk: StepContext, frame: Frame) -> None:
        if frame.ends_at is not None and frame.ends_at <= walk.now:
            walk.drop_inner_frames(frame)
            walk.fail_try(frame, TIMEOUT)
