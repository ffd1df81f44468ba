"""What a reader sees of a run that is under way: `_rt` in the shared state, and its retries."""

from typing import Any

from headway.core.flow.definition.definition import RESERVED_KEY
from headway.core.flow.engine.kinds import HANDLERS
from headway.core.flow.engine.state import FlowState


def visible_shared(state: FlowState) -> dict[str, Any]:
    """The run's shared state, with the run state of its node under `_rt` until it is over."""
    shown: dict[str, Any] = {}
    inner = ""
    for frame in reversed(state.frames):
        node = frame.node
        short = HANDLERS[node.kind].state_prefix
        within = {"curr": inner, "shared": shown, "last": state.last_action}
        shown = dict(frame.shared)
        if frame.is_entered and short and not state.is_over:
            run_state = within if inner else HANDLERS[node.kind].run_state(frame)
            shown[RESERVED_KEY] = {f"{short}:{node.key}": run_state}
        inner = node.key
    return shown


def retry_state(state: FlowState) -> dict[str, Any]:
    """Which try of the node this is, and of its calls those that are not at their first."""
    if state.is_over:
        return {}
    frame = state.frames[-1]
    told: dict[str, Any] = {"node": frame.node.key, "try": frame.try_no}
    again = {
        str(branch.index): {"try": branch.try_no, "attempt": branch.attempt, "at": branch.call_at}
        for branch in frame.open_branches.values()
        if branch.try_no > 1 or branch.attempt > 1
    }
    return told | ({"branches": again} if again else {})
