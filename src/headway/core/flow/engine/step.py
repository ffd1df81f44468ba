"""The engine: what happened goes in; the state moves on; a commit says what that means (R5.4).

It is pure: no clock, no I/O, no randomness. `step` changes the state in place, for the sake of
speed. A driver whose commit did not land throws the state away and loads it again.
"""

from collections.abc import Mapping
from heapq import heappop
from typing import Any, Final

from headway.core.errors import InvalidInput
from headway.core.flow.definition.definition import Flow
from headway.core.flow.definition.diagnostics import shown
from headway.core.flow.engine.calls import CallRules
from headway.core.flow.engine.inputs import (
    Aborted,
    Answered,
    Failed,
    Happened,
    ServiceOffered,
    Signalled,
    Untaken,
    Woken,
)
from headway.core.flow.engine.kinds import KINDS
from headway.core.flow.engine.signal_waits import Wait
from headway.core.flow.engine.state import Commit, Frame, NodeRunStatus, State
from headway.core.flow.engine.step_context import Walk
from headway.core.ids import Instant
from headway.core.run.status import RunStatus

ENTERED_COUNT_MAX: Final = 64
"""How many nodes one step may enter: choices can follow each other without end."""
AT_ONCE: Final = Instant(0)


def begin(
    flow: Flow,
    params: Mapping[str, Any],
    *,
    node_key: str | None = None,
    shared: Mapping[str, Any] | None = None,
) -> State:
    """A run that stands before its first node, or before the one from which it is run again.

    Running again takes the shared state with it; what later nodes have written there stays until
    they write it anew. InvalidInput when there is no such node.
    """
    key = flow.start if node_key is None else node_key
    if key not in flow.nodes:
        raise InvalidInput("node_key", f"there is no node {shown(key)}")
    return State([Frame(flow, dict(params), dict(shared or {}), flow.nodes[key])])


def step(state: State, happened: Happened, now: Instant) -> Commit:
    """Let one thing happen. When the run is over, or nobody waits for it, nothing changes.

    Only a signal that was accepted before the success of a run was stored still comes into it.
    """
    walk = Walk(state, now)
    # What a signal says is for the node that comes, which may need several: time moves the run on.
    is_early = isinstance(happened, Signalled) and not state.frames[-1].is_entered
    if not _take(walk, happened):
        walk.commit.is_changed = False
    elif not is_early:
        _enter(walk)
    walk.commit.wake_at = wake_at(state)
    return walk.commit


def wake_at(state: State) -> Instant | None:
    """When the run wants to be woken by itself; in the past if that is at once."""
    if state.is_over:
        return None
    frame = state.frames[-1]
    times = [one.until for one in state.frames if one.until is not None]
    if not frame.is_entered:
        times.append(AT_ONCE if frame.again_at is None else frame.again_at)
    alarms = frame.alarms
    while alarms:
        at, index = alarms[0]
        branch = frame.open.get(index)
        if branch is not None and branch.rings_at == at:
            times.append(at)
            break
        heappop(alarms)
    return min(times, default=None)


def _take(walk: Walk, happened: Happened) -> bool:
    """Whether it changed anything."""
    state = walk.state
    if state.is_over and not _is_part_of_success(state, happened):
        return False
    frame = state.frames[-1]
    rules = KINDS[frame.node.kind]
    match happened:
        case Answered():
            return isinstance(rules, CallRules) and rules.answered(walk, frame, happened)
        case Failed():
            return isinstance(rules, CallRules) and rules.failed(walk, frame, happened)
        case Untaken():
            return isinstance(rules, CallRules) and rules.untaken(walk, frame, happened)
        case ServiceOffered(service):
            return isinstance(rules, CallRules) and rules.offered(walk, frame, service)
        case Woken():
            _wake(walk)
        case Signalled(key, value):
            walk.freeze(key)
            walk.set_shared(state.frames[0], key, value)
            if frame.is_entered and isinstance(rules, Wait) and not state.is_over:
                rules.hear(walk, frame)
        case Aborted(error):
            frame.input = None  # It may be what cannot be stored.
            walk.record(frame, NodeRunStatus.ERROR, error=error)
            walk.cancel_calls()
            walk.finish(RunStatus.FAILED, error)
    return True


def _is_part_of_success(state: State, happened: Happened) -> bool:
    """A signal is part of the result, or fails the run if there is no room for it."""
    return state.status is RunStatus.SUCCEEDED and isinstance(happened, Signalled | Aborted)


def _wake(walk: Walk) -> None:
    """Look at each frame from the outermost on: the time of a subflow may be over."""
    frames = walk.state.frames
    for depth, frame in enumerate(tuple(frames), start=1):
        if frame.is_entered:
            KINDS[frame.node.kind].look(walk, frame)
        if len(frames) <= depth:
            break


def _enter(walk: Walk) -> None:
    """Enter the nodes that the run stands before, until one has to wait for something."""
    state = walk.state
    for _ in range(ENTERED_COUNT_MAX):
        frame = state.frames[-1]
        is_early = frame.again_at is not None and frame.again_at > walk.now
        if state.is_over or frame.is_entered or is_early:
            return
        walk.enter(frame)
        KINDS[frame.node.kind].enter(walk, frame)
