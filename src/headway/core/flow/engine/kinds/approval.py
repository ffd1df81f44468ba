"""`approval`: waits for a person's yes, no, or word, at what `params.approval_key` points at."""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.diagnostics import Report, shown
from headway.core.flow.definition.paths import Path
from headway.core.flow.engine.signal_waits import Wait
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import Walk, found_action, is_action

APPROVED: Final = "approved"
REJECTED: Final = "rejected"


class Approval(Wait):
    short = "ap"
    key_name = "approval_key"

    def check_path(self, path: Path, place: str, report: Report) -> None:
        if path.shared_key is not None and path.sole_key is None:
            key = shown(path.shared_key)
            problem = f"is within {key}: nobody can approve it; a signal must bring all of {key}"
            report.warn(place, problem)

    def has_come(self, value: Any) -> bool:
        return value is not None and value != ""

    def take(self, walk: Walk, frame: Frame, value: Any) -> None:
        """As of every node `action_static` and `action_key` go first; then the answer itself."""
        static = frame.node.post.action_static
        action = static or found_action(frame, value) or decision(value)
        walk.succeed(frame, value, action=action)


def decision(value: Any) -> str | None:
    """What an answer means: a boolean, one under `approved`, or the action itself."""
    if isinstance(value, Mapping):
        value = value.get("approved")
    if isinstance(value, bool):
        return APPROVED if value else REJECTED
    return value if is_action(value) else None
