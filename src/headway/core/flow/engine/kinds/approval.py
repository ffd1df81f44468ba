"""The kind `approval`: wait for a person's answer at the path in `params.approval_key`.

The answer is true, false, or the name of an action.
"""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.definition import AWAITED_PATH_PARAMS, Kind
from headway.core.flow.definition.diagnostics import Diagnostics, quote_text
from headway.core.flow.definition.paths import Path
from headway.core.flow.engine.signal_waits import WaitHandler
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import StepContext, find_action, is_action

APPROVED: Final = "approved"
REJECTED: Final = "rejected"


class ApprovalHandler(WaitHandler):
    state_prefix = "ap"
    key_param = AWAITED_PATH_PARAMS[Kind.APPROVAL]

    def check_path(self, awaited: Path, path: str, diagnostics: Diagnostics) -> None:
        if awaited.shared_key is not None and awaited.exact_key is None:
            key = quote_text(awaited.shared_key)
            problem = (
                f"is within {key}, so `approve` cannot answer it;"
                f" send a signal that sets the whole of {key}"
            )
            diagnostics.add_warning(path, problem)

    def has_arrived(self, value: Any) -> bool:
        return value is not None and value != ""

    def complete(self, context: StepContext, frame: Frame, value: Any) -> None:
        """Finish the node with an answer.

        The action is `action_static`, else the text at `action_key`, else the answer itself.
        """
        static = frame.node.post.action_static
        action = static or find_action(frame, value) or to_action(value)
        context.succeed(frame, value, action=action)


def to_action(value: Any) -> str | None:
    """Return the action that an answer names, or None if it names no action.

    The answer is a boolean, the name of an action, or an object with one of these as `approved`.
    """
    if isinstance(value, Mapping):
        value = value.get("approved")
    if isinstance(value, bool):
        return APPROVED if value else REJECTED
    return value if is_action(value) else None
