"""The state of an active run for readers: `_rt` in the shared state, and the run's retries."""

from typing import Any

from headway.core.flow.definition.definition import RESERVED_KEY
from headway.core.flow.engine.kinds import HANDLERS
from headway.core.flow.engine.state import FlowState


def visible_shared(state: FlowState) -> dict[str, Any]:
    """Return the run's shared state for readers.

    Until the run ends, the member `_rt` contains the state of the current node, if the kind of that
    node has a state.
    """
    shown: dict[str, Any] = {}
    inner_key = ""
    for frame in reversed(state.frames):
        node = frame.node
        prefix = HANDLERS[node.kind].state_prefix
        subflow_state = {"curr": inner_key, "shared": shown, "last": state.last_action}
        shown = dict(frame.shared)
        if frame.is_entered and prefix and not state.is_over:
            run_state = subflow_state if inner_key else HANDLERS[node.kind].run_state(frame)
            shown[RESERVED_KEY] = {f"{prefix}:{node.key}": run_state}
        inner_key = node.key
    return shown


def retry_state(state: FlowState) -> dict[str, Any]:
    """Return the current node's try number, and the branches past their first attempt."""
    if state.is_over:
        return {}
    frame = state.frames[-1]
    retries: dict[str, Any] = {"node": frame.node.key, "try": frame.try_no}
    branches = {
        str(branch.index): {"try": branch.try_no, "attempt": branch.attempt, "at": branch.call_at}
        for branch in frame.open_branches.values()
        if branch.try_no > 1 or branch.attempt > 1
    }
    return retries | ({"branches": branches} if branches else {})
