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
    """The behaviour of nodes of one kind.

    `frame` is the innermost frame. Only `handle_wake` is also called for the outer frames of a
    subflow.
    """

    state_prefix: str = ""
    """The prefix of the names in `_rt` for nodes of this kind. Empty if `_rt` shows none."""

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        """Report each requirement of the kind that the node does not meet."""

    def enter(self, context: StepContext, frame: Frame) -> None:
        """Begin a new attempt of the node."""
        raise NotImplementedError

    def handle_wake(self, context: StepContext, frame: Frame) -> None:
        """React to a change of the time or of the shared state."""

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        """Return the state of an entered node that readers find in `_rt`.

        A kind with a `state_prefix` must define this method, except `subflow`: `visible_shared`
        builds its state.
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
