"""`timer`: goes on after `params.delay_ms`, never earlier (I18). The output is the input."""

from collections.abc import Mapping
from typing import Any

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report, member
from headway.core.flow.engine.node_handler import Rules, check_delay_ms, read_delay_ms
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import MILLISECOND, Walk
from headway.core.ids import Instant


class Timer(Rules):
    short = "tm"

    def check(self, node: Node, place: str, report: Report) -> None:
        check_delay_ms(node, "delay_ms", place, report)
        if "delay_ms" not in node.params:
            at = member(member(place, "params"), "delay_ms")
            report.warn(at, "is missing: the run's parameters must have it")

    def enter(self, walk: Walk, frame: Frame) -> None:
        try:
            delay_ms = read_delay_ms(frame.merged, "delay_ms")
        except ValueError as error:
            walk.fail_try(frame, str(error), is_final=True)
            return
        if delay_ms is None:
            walk.fail_try(frame, "no delay_ms", is_final=True)
            return
        frame.until = Instant(walk.now + round(delay_ms * MILLISECOND))
        self.look(walk, frame)

    def look(self, walk: Walk, frame: Frame) -> None:
        if frame.until is not None and frame.until <= walk.now:
            walk.succeed(frame, frame.input)

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        return {"start": frame.entered_at // MILLISECOND}
