"""The kind `subflow`: a graph within a node. Its shared state is the node's output."""

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.engine.calls import TIMEOUT
from headway.core.flow.engine.node_handler import NodeHandler
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import MILLISECOND, StepContext
from headway.core.ids import Instant


class SubflowHandler(NodeHandler):
    """Starts the subflow and enforces its timeout.

    `StepContext` ends the subflow, as it ends any flow. `run_state.py` builds the run state of the
    subflow.
    """

    state_prefix = "sf"

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        if node.subflow is None:
            diagnostics.add_error(
                join_path(path, "subflow"), "is missing; a node of kind subflow needs it"
            )

    def enter(self, context: StepContext, frame: Frame) -> None:
        node = frame.node
        assert node.subflow is not None
        if node.timeout_ms:
            frame.ends_at = Instant(context.now + node.timeout_ms * MILLISECOND)
        context.push_subflow(frame, node.subflow)

    def handle_wake(self, context: StepContext, frame: Frame) -> None:
        if frame.ends_at is not None and frame.ends_at <= context.now:
            context.drop_inner_frames(frame)
            context.fail_try(frame, TIMEOUT)
