"""What a task that is not moving waits for, in a word."""

from typing import Final

from headway.core.flow.definition import Kind
from headway.core.flow.paths import BadPath, Path, parse_path
from headway.core.flow.state import State

APPROVAL: Final = "approval"
EVENT: Final = "event"
FUNCTION: Final = "function"
TIMER: Final = "timer"
LEFT_TO_OTHERS: Final = frozenset({APPROVAL, EVENT, FUNCTION})
"""These another process may end at any time, so that nobody waits for them here."""
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
    if frame.node.kind in _BY_KIND:
        return _BY_KIND[frame.node.kind]
    if frame.node.flow:
        return "child"
    return FUNCTION if frame.is_untaken else "retry"


def awaited_path(state: State) -> Path | None:
    """Where its node looks for an event or an approval, if it waits for one."""
    frame = state.frames[-1]
    name = _KEY_NAMES.get(frame.node.kind)
    if name is None or not frame.is_entered or state.is_over:
        return None
    text = frame.merged.get(name)
    try:
        return parse_path(text) if isinstance(text, str) else None
    except BadPath:
        return None


def awaited_key(state: State) -> str | None:
    """The key of the shared state that a signal would have to set; None: there is none."""
    path = awaited_path(state)
    return None if path is None else path.sole_key
