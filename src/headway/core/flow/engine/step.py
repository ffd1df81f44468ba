"""The step engine: apply one input to the state of a run and return the result (R5.4).

The engine is pure: no clock, no I/O, no randomness. For speed, `step` changes the state in place. A
driver whose commit failed discards the state and loads it again.
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
"""How many nodes one step may enter. Without a limit, a loop of choices would never end."""
AT_ONCE: Final = Instant(0)


def create_state(
    flow: Flow,
    params: Mapping[str, Any],
    *,
    node_key: str | None = None,
    shared: Mapping[str, Any] | None = None,
) -> FlowState:
    """Return the state of a run that has not entered its first node.

    A rerun begins at `node_key`, with the given shared state. Values that later nodes wrote stay in
    it until they are overwritten. Raise InvalidInput if the flow has no node `node_key`.
    """
    key = flow.start if node_key is None else node_key
    if key not in flow.nodes:
        raise InvalidInput(
            "node_key", f"there is no node {quote_text(key)}; use a key of the flow's nodes"
        )
    return FlowState([Frame(flow, dict(params), dict(shared or {}), flow.nodes[key])])


def step(state: FlowState, flow_input: FlowInput, now: Instant) -> StepResult:
    """Apply one input. Nothing changes if the run has ended or no node waits for the input.

    There is one exception: a signal that was accepted before the run's success was stored still
    becomes part of the run's result.
    """
    context = StepContext(state, now)
    # A node that is not entered yet may need several signals, so a signal alone does not enter it:
    # the run continues when it is woken.
    is_early = isinstance(flow_input, Signalled) and not state.frames[-1].is_entered
    if not _apply_input(context, flow_input):
        context.result.is_changed = False
    elif not is_early:
        _enter_nodes(context)
    context.result.wake_at = next_wake_at(state)
    return context.result


def next_wake_at(state: FlowState) -> Instant | None:
    """Return when the run must be woken, or None if never. A past instant means at once."""
    if state.is_over:
        return None
    frame = state.frames[-1]
    times = [outer.ends_at for outer in state.frames if outer.ends_at is not None]
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


def _apply_input(context: StepContext, flow_input: FlowInput) -> bool:
    """Apply the input. Return False if it changed nothing."""
    state = context.state
    if state.is_over and not _is_part_of_success(state, flow_input):
        return False
    frame = state.frames[-1]
    handler = HANDLERS[frame.node.kind]
    match flow_input:
        case Answered():
            return isinstance(handler, CallHandler) and handler.handle_answer(
                context, frame, flow_input
            )
        case Failed():
            return isinstance(handler, CallHandler) and handler.handle_failure(
                context, frame, flow_input
            )
        case CalleeUnavailable():
            return isinstance(handler, CallHandler) and handler.handle_unavailable(
                context, frame, flow_input
            )
        case ServiceOffered(service):
            return isinstance(handler, CallHandler) and handler.handle_offer(
                context, frame, service
            )
        case Woken():
            _handle_wake(context)
        case Signalled(key, value):
            context.freeze_input(key)
            context.set_shared(state.frames[0], key, value)
            if frame.is_entered and isinstance(handler, WaitHandler) and not state.is_over:
                handler.handle_signal(context, frame)
        case Aborted(error):
            frame.input = None  # The input may be the value that cannot be stored.
            context.record(frame, NodeRunStatus.ERROR, error=error)
            context.cancel_calls()
            context.finish(RunStatus.FAILED, error)
    return True


def _is_part_of_success(state: FlowState, flow_input: FlowInput) -> bool:
    """Return True if the run has succeeded and the input may still change it.

    A signal may change it. An abort may too, because the value of a signal may be too large.
    """
    return state.status is RunStatus.SUCCEEDED and isinstance(flow_input, Signalled | Aborted)


def _handle_wake(context: StepContext) -> None:
    """Wake all frames, the outermost first, because a subflow may have timed out."""
    frames = context.state.frames
    for depth, frame in enumerate(tuple(frames), start=1):
        if frame.is_entered:
            HANDLERS[frame.node.kind].handle_wake(context, frame)
        if len(frames) <= depth:
            break


def _enter_nodes(context: StepContext) -> None:
    """Enter nodes until one has to wait for something."""
    state = context.state
    for _ in range(ENTERED_COUNT_MAX):
        frame = state.frames[-1]
        is_early = frame.retry_at is not None and frame.retry_at > context.now
        if state.is_over or frame.is_entered or is_early:
            return
        context.enter(frame)
        HANDLERS[frame.node.kind].enter(context, frame)
