"""The engine: what happened goes in; the state moves on; a commit says what that means (R5.4).

It is pure: no clock, no I/O, no randomness. `step` changes the state in place, for the sake of
speed. A driver whose commit did not land throws the state away and loads it again.
"""

from collections.abc import Mapping
from heapq import heappop
from typing import Any, Final

from headway.core.errors import InvalidInput
from headway.core.flow.definition.definition import Flow
from headway.core.flow.definition.diagnostics import quote_text
from headway.core.flow.engine.calls import CallHandler
from headway.core.flow.engine.inputs import (
    Aborted,
    Answered,
    CalleeUnavailable,
    Failed,
    FlowInput,
    ServiceOffered,
    Signalled,
    Woken,
)
from headway.core.flow.engine.kinds import HANDLERS
from headway.core.flow.engine.signal_waits import WaitHandler
from headway.core.flow.engine.state import FlowState, Frame, NodeRunStatus, StepResult
from headway.core.flow.engine.step_context import StepContext
from headway.core.ids import Instant
from headway.core.run.status import RunStatus

ENTERED_COUNT_MAX: Final = 64
"""How many nodes one step may enter: choices can follow each other without end."""
AT_ONCE: Final = Instant(0)


def create_state(
    flow: Flow,
    params: Mapping[str, Any],
    *,
    node_key: str | None = None,
    shared: Mapping[str, Any] | None = None,
) -> FlowState:
    """A run that stands before its first node, or before the one from which it is run again.

    Running again takes the shared state with it; what later nodes have written there stays until
    they write it anew. InvalidInput when there is no such node.
    """
    key = flow.start if node_key is None else node_key
    if key not in flow.nodes:
        raise InvalidInput("node_key", f"there is no node {quote_text(key)}")
    return FlowState([Frame(flow, dict(params), dict(shared or {}), flow.nodes[key])])


def step(state: FlowState, happened: FlowInput, now: Instant) -> StepResult:
    """Let one thing happen. When the run is over, or nobody waits for it, nothing changes.

    Only a signal that was accepted before the success of a run was stored still comes into it.
    """
    walk = StepContext(state, now)
    # What a signal says is for the node that comes, which may need several: time moves the run on.
    is_early = isinstance(happened, Signalled) and not state.frames[-1].is_entered
    if not _apply_input(walk, happened):
        walk.result.is_changed = False
    elif not is_early:
        _enter_nodes(walk)
    walk.result.wake_at = next_wake_at(state)
    return walk.result


def next_wake_at(state: FlowState) -> Instant | None:
    """When the run wants to be woken by itself; in the past if that is at once."""
    if state.is_over:
        return None
    frame = state.frames[-1]
    times = [one.ends_at for one in state.frames if one.ends_at is not None]
    if not frame.is_entered:
        times.append(AT_ONCE if frame.retry_at is None else frame.retry_at)
    alarms = frame.alarms
    while alarms:
        at, index = alarms[0]
        branch = frame.open_branches.get(index)
        if branch is not None and branch.alarm_at == at:
            times.append(at)
            break
        heappop(alarms)
    return min(times, default=None)


def _apply_input(walk: StepContext, happened: FlowInput) -> bool:
    """Whether it changed anything."""
    state = walk.state
    if state.is_over and not _is_part_of_success(state, happened):
        return False
    frame = state.frames[-1]
    rules = HANDLERS[frame.node.kind]
    match happened:
        case Answered():
            return isinstance(rules, CallHandler) and rules.handle_answer(walk, frame, happened)
        case Failed():
            return isinstance(rules, CallHandler) and rules.handle_failure(walk, frame, happened)
        case CalleeUnavailable():
            return isinstance(rules, CallHandler) and rules.handle_unavailable(
                walk, frame, happened
            )
        case ServiceOffered(service):
            return isinstance(rules, CallHandler) and rules.handle_offer(walk, frame, service)
        case Woken():
            _handle_wake(walk)
        case Signalled(key, value):
            walk.freeze_input(key)
            walk.set_shared(state.frames[0], key, value)
            if frame.is_entered and isinstance(rules, WaitHandler) and not state.is_over:
                rules.handle_signal(walk, frame)
        case Aborted(error):
            frame.input = None  # It may be what cannot be stored.
            walk.record(frame, NodeRunStatus.ERROR, error=error)
            walk.cancel_calls()
            walk.finish(RunStatus.FAILED, error)
    return True


def _is_part_of_success(state: FlowState, happened: FlowInput) -> bool:
    """A signal is part of the result, or fails the run if there is no room for it."""
    return state.status is RunStatus.SUCCEEDED and isinstance(happened, Signalled | Aborted)


def _handle_wake(walk: StepContext) -> None:
    """Look at each frame from the outermost on: the time of a subflow may be over."""
    frames = walk.state.frames
    for depth, frame in enumerate(tuple(frames), start=1):
        if frame.is_entered:
            HANDLERS[frame.node.kind].handle_wake(walk, frame)
        if len(frames) <= depth:
            break


def _enter_nodes(walk: StepContext) -> None:
    """Enter the nodes that the run stands before, until one has to wait for something."""
    state = walk.state
    for _ in range(ENTERED_COUNT_MAX):
        frame = state.frames[-1]
        is_early = frame.retry_at is not None and frame.retry_at > walk.now
        if state.is_over or frame.is_entered or is_early:
            return
        walk.enter(frame)
        HANDLERS[frame.node.kind].enter(walk, frame)
