"""`approval`: waits for a person's yes, no, or word, at what `params.approval_key` points at."""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.diagnostics import Diagnostics, quote_text
from headway.core.flow.definition.paths import Path
from headway.core.flow.engine.signal_waits import WaitHandler
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import StepContext, find_action, is_action

APPROVED: Final = "approved"
REJECTED: Final = "rejected"


class ApprovalHandler(WaitHandler):
    state_prefix = "ap"
    key_param = "approval_key"

    def check_path(self, path: Path, place: str, report: Diagnostics) -> None:
        if path.shared_key is not None and path.exact_key is None:
            key = quote_text(path.shared_key)
            problem = f"is within {key}: nobody can approve it; a signal must bring all of {key}"
            report.add_warning(place, problem)

    def has_arrived(self, value: Any) -> bool:
        return value is not None and value != ""

    def complete(self, walk: StepContext, frame: Frame, value: Any) -> None:
        """As of every node `action_static` and `action_key` go first; then the answer itself."""
        static = frame.node.post.action_static
        action = static or find_action(frame, value) or to_action(value)
        walk.succeed(frame, value, action=action)


def to_action(value: Any) -> str | None:
    """What an answer means: a boolean, one under `approved`, or the action itself."""
    if isinstance(value, Mapping):
        value = value.get("approved")
    if isinstance(value, bool):
        return APPROVED if value else REJECTED
    return value if is_action(value) else None
