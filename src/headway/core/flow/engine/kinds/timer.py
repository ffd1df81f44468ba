"""The kind `timer`: continue after `params.delay_ms`, never earlier (I18).

The output is the input.
"""

from collections.abc import Mapping
from typing import Any

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.engine.node_handler import NodeHandler, check_delay_ms, read_delay_ms
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import MILLISECOND, StepContext
from headway.core.ids import Instant


class TimerHandler(NodeHandler):
    state_prefix = "tm"

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        check_delay_ms(node, "delay_ms", path, diagnostics)
        if "delay_ms" not in node.params:
            delay_path = join_path(join_path(path, "params"), "delay_ms")
            diagnostics.add_warning(
                delay_path, "is missing; set it, or pass it with the parameters of every task"
            )

    def enter(self, context: StepContext, frame: Frame) -> None:
        try:
            delay_ms = read_delay_ms(frame.merged_params, "delay_ms")
        except ValueError as error:
            context.fail_try(frame, str(error), is_final=True)
            return
        if delay_ms is None:
            context.fail_try(frame, "no delay_ms", is_final=True)
            return
        frame.ends_at = Instant(context.now + round(delay_ms * MILLISECOND))
        self.handle_wake(context, frame)

    def handle_wake(self, context: StepContext, frame: Frame) -> None:
        if frame.ends_at is not None and frame.ends_at <= context.now:
            context.succeed(frame, frame.input)

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        return {"start": frame.entered_at // MILLISECOND}
