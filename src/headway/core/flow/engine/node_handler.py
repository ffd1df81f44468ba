"""What a kind of node has to say, whatever its kind."""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import StepContext

DELAY_MS_MAX: Final = 10 * 366 * 24 * 3_600 * 1_000


class NodeHandler:
    """How nodes of one kind behave. The frame is always the innermost one."""

    state_prefix: str = ""
    """The prefix of its run state in `_rt`; empty if it has none."""

    def check(self, node: Node, place: str, report: Diagnostics) -> None:
        """Report what the kind needs and the node has not."""

    def enter(self, walk: StepContext, frame: Frame) -> None:
        """A new try begins."""
        raise NotImplementedError

    def handle_wake(self, walk: StepContext, frame: Frame) -> None:
        """The time or the shared state has changed since."""

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        """What `_rt` shows of a node that has been entered, if the kind has a `short`."""
        raise NotImplementedError


def require_text(node: Node, name: str, place: str, report: Diagnostics) -> None:
    if not getattr(node, name):
        report.add_error(join_path(place, name), f"is missing; a node of kind {node.kind} needs it")


def read_delay_ms(params: Mapping[str, Any], name: str) -> float | None:
    """Milliseconds; None when there are none, ValueError when it is no length of time."""
    value = params.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= DELAY_MS_MAX:
        raise ValueError(f"{name} must be a number from 0 to {DELAY_MS_MAX:,}")
    return float(value)


def check_delay_ms(node: Node, name: str, place: str, report: Diagnostics) -> None:
    try:
        read_delay_ms(node.params, name)
    except ValueError as error:
        report.add_error(join_path(join_path(place, "params"), name), str(error))
