"""What a task that is not moving waits for, in a word."""

from typing import Final

from headway.core.flow.definition import Kind
from headway.core.flow.paths import BadPath, parse_path
from headway.core.flow.state import State

APPROVAL: Final = "approval"
EVENT: Final = "event"
TIMER: Final = "timer"
EVENT_KINDS: Final = frozenset({APPROVAL, EVENT})
_BY_KIND: Final = {
    Kind.TIMER: TIMER,
    Kind.WAIT_EVENT: EVENT,
    Kind.APPROVAL: APPROVAL,
}
_KEY_NAMES: Final = {Kind.WAIT_EVENT: "signal_key", Kind.APPROVAL: "approval_key"}


def waited_for(state: State) -> str:
    frame = state.frames[-1]
    if not frame.is_entered:
        return "retry"
    return _BY_KIND.get(frame.node.kind) or ("child" if frame.node.flow else "retry")


def awaited_key(state: State) -> str | None:
    """The key of the shared state that a signal would have to set; None: there is none."""
    frame = state.frames[-1]
    name = _KEY_NAMES.get(frame.node.kind)
    text = None if name is None or not frame.is_entered else frame.merged.get(name)
    if not isinstance(text, str):
        return None
    try:
        return parse_path(text).shared_key
    except BadPath:
        return None
