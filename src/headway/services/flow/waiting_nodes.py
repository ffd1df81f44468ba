"""The reasons why a task waits, derived from its state."""

from typing import Final, NamedTuple

from headway.core.flow.definition.definition import AWAITED_PATH_PARAMS, Kind
from headway.core.flow.definition.paths import BadPath, Path, parse_path
from headway.core.flow.engine.state import FlowState
from headway.core.flow.engine.step_context import MILLISECOND
from headway.core.ids import Instant

APPROVAL: Final = "approval"
EVENT: Final = "event"
FUNCTION: Final = "function"
TIMER: Final = "timer"
WORKER: Final = "worker"
ALWAYS_PARKED: Final = frozenset({APPROVAL, EVENT, FUNCTION, WORKER})
"""The reasons for which a task parks at once: another process may end the wait at any time."""
_REASONS: Final = {
    Kind.TIMER: TIMER,
    Kind.WAIT_EVENT: EVENT,
    Kind.APPROVAL: APPROVAL,
}


def wait_reason(state: FlowState) -> str:
    """Return the reason why the task waits, which is stored in the column `waits_for`."""
    frame = state.frames[-1]
    if not frame.is_entered:
        return "retry"
    if frame.node.kind in _REASONS:
        return _REASONS[frame.node.kind]
    if frame.node.flow:
        return "child"
    if not frame.is_awaiting_callee:
        return "retry"
    return FUNCTION if frame.node.function else WORKER


class AwaitedWorker(NamedTuple):
    """A task's wait for a worker that offers the services that the task calls."""

    services: tuple[str, ...]
    """The services that no live worker offers, or whose workers cannot be reached."""
    since: Instant
    until: Instant
    """When the wait ends and the call fails."""
    is_offered: bool
    """True if workers offered the services at the last call, but could not be reached."""


def awaited_worker(state: FlowState) -> AwaitedWorker | None:
    """Return a task's wait for a worker, or None if the task does not wait for a worker."""
    frame = state.frames[-1]
    waiting = [branch for branch in frame.open_branches.values() if branch.is_awaiting_callee]
    if state.is_over or not frame.is_entered or frame.node.function or not waiting:
        return None
    services = tuple(dict.fromkeys(frame.service_of(branch) for branch in waiting))
    since = min(frame.missing_since.get(service, frame.entered_at) for service in services)
    until = Instant(since + frame.flow.worker_wait_ms * MILLISECOND)
    is_offered = not any(branch.awaited_service for branch in waiting)
    return AwaitedWorker(services, since, until, is_offered)


def awaited_path(state: FlowState) -> Path | None:
    """Return the path at which the node expects an event or approval, or None if there is none."""
    frame = state.frames[-1]
    name = AWAITED_PATH_PARAMS.get(frame.node.kind)
    if name is None or not frame.is_entered or state.is_over:
        return None
    text = frame.merged_params.get(name)
    try:
        return parse_path(text) if isinstance(text, str) else None
    except BadPath:
        return None


def awaited_key(state: FlowState) -> str | None:
    """Return the key of the shared state that a signal must set for the node to continue.

    Return None if the node waits for no signal, or if it waits for a part of a key's value.
    """
    path = awaited_path(state)
    return None if path is None else path.exact_key
