"""The interface of node kinds, and checks that several kinds share."""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import StepContext

DELAY_MS_MAX: Final = 10 * 366 * 24 * 3_600 * 1_000
"""The maximum delay: ten years, in milliseconds."""


class NodeHandler:
    """The behavior of one kind of node.

    `frame` is always the innermost frame, except that `handle_wake` is also called for the outer
    frames of a subflow.
    """

    state_prefix: str = ""
    """The prefix of this kind's names in `_rt`. Empty if `_rt` never shows nodes of this kind."""

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        """Check the node against the rules of its kind, and report each problem."""

    def enter(self, context: StepContext, frame: Frame) -> None:
        """Begin a new try of the node."""
        raise NotImplementedError

    def handle_wake(self, context: StepContext, frame: Frame) -> None:
        """React to the passing of time or to a change of the shared state."""

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        """Return the state of an entered node, which readers find in `_rt`.

        A kind with a `state_prefix` must define this method. The exception is `subflow`:
        `visible_shared` builds its state.
        """
        raise NotImplementedError


def require_text(node: Node, name: str, path: str, diagnostics: Diagnostics) -> None:
    if not getattr(node, name):
        diagnostics.add_error(
            join_path(path, name), f"is missing; a node of kind {node.kind} needs it"
        )


def read_delay_ms(params: Mapping[str, Any], name: str) -> float | None:
    """Return a delay in milliseconds, or None if it is absent. Raise ValueError if invalid."""
    value = params.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= DELAY_MS_MAX:
        raise ValueError(f"{name} must be a number from 0 to {DELAY_MS_MAX:,}")
    return float(value)


def check_delay_ms(node: Node, name: str, path: str, diagnostics: Diagnostics) -> None:
    try:
        read_delay_ms(node.params, name)
    except ValueError as error:
        diagnostics.add_error(join_path(join_path(path, "params"), name), str(error))
