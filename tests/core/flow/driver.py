"""A driver in memory: a virtual clock, calls that take time, and a store that holds only JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from headway.core.flow.definition.definition import Flow
from headway.core.flow.engine.effects import (
    CallFlow,
    CallFunction,
    CallService,
    CancelCall,
    Effect,
)
from headway.core.flow.engine.inputs import (
    Answered,
    CalleeUnavailable,
    Failed,
    FlowInput,
    Signalled,
    Woken,
    WorkerRef,
)
from headway.core.flow.engine.state import FlowState, NodeRun, NodeRunStatus, StepResult
from headway.core.flow.engine.step import create_state, next_wake_at, step
from headway.core.flow.engine.stored_state import (
    StoredState,
    first_row_needed,
    load_state,
    to_cursor,
)
from headway.core.ids import Instant
from headway.core.run.status import RunStatus

MS = 1_000
START = Instant(1_000_000 * MS)
STEP_COUNT_MAX = 20_000


class Reply(NamedTuple):
    """The outcome of a call, and after how long."""

    after_ms: int
    result: Any = None
    error: str = ""
    worker_id: str | None = "w1"
    is_final: bool = False
    is_last: bool = False
    is_untaken: bool = False
    """True if the worker could not be reached, so that it did nothing."""


Call = CallService | CallFunction | CallFlow
Responder = Callable[[Call], Reply | None]
"""Returns the reply to a call, or None if the call never ends by itself."""


class Crash(Enum):
    NEVER = "the state stays in memory"
    RELOAD = "after every commit the state is loaded again; calls continue"
    LOSE = "after every commit the process and its calls are lost; child runs continue"


@dataclass
class Store:
    """The stored state as text. Only the parts that a commit reports as changed are written."""

    cursor: str = ""
    shared: dict[str, str] = field(default_factory=dict)
    inner_shared: str = "[]"
    frozen_input: str = "null"
    rows: list[str] = field(default_factory=list)
    written_count: int = 0
    """Characters written by all commits."""

    def save(self, state: FlowState, commit: StepResult) -> None:
        parts = to_stored_state(state)
        self.cursor = self._text(parts.cursor)
        for key in commit.shared_keys:
            if key in parts.shared:
                self.shared[key] = self._text(parts.shared[key])
            else:
                self.shared.pop(key, None)
        if commit.is_inner_changed:
            self.inner_shared = self._text(parts.inner_shared)
        if commit.is_frozen_changed:
            self.frozen_input = self._text(parts.frozen_input)
        self.rows.extend(self._text(row._asdict()) for row in commit.rows)

    def _text(self, value: Any) -> str:
        text = json.dumps(value, allow_nan=False)
        self.written_count += len(text)
        return text

    def load(self, flow: Flow, params: Mapping[str, Any]) -> FlowState:
        cursor = json.loads(self.cursor)
        stored = StoredState(
            cursor,
            {key: json.loads(text) for key, text in self.shared.items()},
            json.loads(self.inner_shared),
            json.loads(self.frozen_input),
        )
        first_seq = first_row_needed(cursor)
        rows = [] if first_seq is None else self.node_runs()[first_seq - 1 :]
        return load_state(flow, params, stored, rows)

    def node_runs(self) -> list[NodeRun]:
        return [_node_run(json.loads(text)) for text in self.rows]


def to_stored_state(state: FlowState) -> StoredState:
    frozen = state.frozen_input
    return StoredState(
        to_cursor(state),
        state.shared,
        [frame.shared for frame in state.frames[1:]],
        None if frozen is None else list(frozen),
    )


def has_calls(state: FlowState) -> bool:
    """Return True if a call is in flight whose end the driver must pass on."""
    return not state.is_over and any(
        branch.call_at is None for branch in state.frames[-1].open_branches.values()
    )


def _node_run(values: dict[str, Any]) -> NodeRun:
    values["path"] = tuple(values["path"])
    values["status"] = NodeRunStatus(values["status"])
    values["worker"] = None if values["worker"] is None else WorkerRef(*values["worker"])
    return NodeRun(**values)


class Driver:
    """Runs one flow. Inputs of one instant come in this order: signals, ends, alarms."""

    def __init__(
        self,
        flow: Flow,
        params: Mapping[str, Any] | None = None,
        answer: Responder = lambda _: None,
        *,
        crash: Crash = Crash.NEVER,
        shared: Mapping[str, Any] | None = None,
        node_key: str | None = None,
    ) -> None:
        self.flow = flow
        self.params = params or {}
        self.answer = answer
        self.crash = crash
        self.now = START
        self.store = Store(shared={key: json.dumps(value) for key, value in (shared or {}).items()})
        self.state = create_state(flow, self.params, shared=shared, node_key=node_key)
        self.commands: list[Effect] = []
        self.in_flight: dict[str, Call] = {}
        self._ends: list[tuple[Instant, int, int, FlowInput]] = []
        self._counter = 0
        self._is_loaded = False

    # Called by tests.

    def apply(self, flow_input: FlowInput) -> StepResult:
        """Apply an input now: store the result, perform its effects and crash if configured."""
        is_first_wake = self._is_loaded and isinstance(flow_input, Woken)
        self._is_loaded = False
        commit = self._step(flow_input)
        # After a crash the first step repeats the lost calls. A crash there would never end.
        if commit.is_changed and not self.state.is_over and not is_first_wake:
            self._crash()
        return commit

    def signal_after(self, after_ms: int, key: str, value: Any) -> None:
        at = Instant(START + after_ms * MS)
        self._push(at, 0, Signalled(key, value))

    def run(self, until_ms: int | None = None) -> "Driver":
        """Run until the run ends, `until_ms` is reached or no input is pending."""
        last_at = None if until_ms is None else Instant(START + until_ms * MS)
        if self.now == START and not self.store.rows:
            self.apply(Woken())
        for _ in range(STEP_COUNT_MAX):
            next_at = self._next_at()
            if self.state.is_over or next_at is None:
                return self
            if last_at is not None and next_at > last_at:
                self.now = last_at
                return self
            self.now = max(self.now, next_at)
            if self._ends and self._ends[0][0] <= self.now:
                self.apply(heappop(self._ends)[3])
            else:
                self.apply(Woken())
        raise AssertionError("the run does not end")

    @property
    def end(self) -> tuple[RunStatus, str] | None:
        """The status and the error with which the run ended, or None if it has not."""
        return (self.state.status, self.state.error) if self.state.is_over else None

    @property
    def rows(self) -> list[NodeRun]:
        return self.store.node_runs()

    @property
    def shared(self) -> dict[str, Any]:
        return {key: json.loads(text) for key, text in self.store.shared.items()}

    def calls(self) -> list[Call]:
        """Return the calls in the order in which they were made."""
        return [command for command in self.commands if isinstance(command, Call)]

    # The loop.

    def _step(self, flow_input: FlowInput) -> StepResult:
        if isinstance(flow_input, Answered | Failed | CalleeUnavailable):
            self.in_flight.pop(flow_input.call_id, None)
        commit = step(self.state, flow_input, self.now)
        self._wake_at = commit.wake_at
        if not commit.is_changed:
            assert not commit.rows
            assert not commit.effects
            return commit
        self.store.save(self.state, commit)
        for command in commit.effects:
            self._perform(command)
        if self.crash is not Crash.RELOAD:
            assert has_calls(self.state) == bool(self.in_flight)
        return commit

    def _crash(self) -> None:
        if self.crash is Crash.NEVER:
            return
        if self.crash is Crash.LOSE:
            lost = [key for key, call in self.in_flight.items() if not isinstance(call, CallFlow)]
            for call_id in lost:
                self._forget(call_id)
        self.state = self.store.load(self.flow, self.params)
        self._wake_at = next_wake_at(self.state)
        self._is_loaded = True
        if self.crash is Crash.LOSE:
            self.apply(Woken())

    def _perform(self, command: Effect) -> None:
        self.commands.append(command)
        match command:
            case CallService() | CallFunction() | CallFlow():
                if command.call_id not in self.in_flight:
                    self._call(command)
            case CancelCall(call_id):
                if self.crash is Crash.NEVER or call_id in self.in_flight:
                    self._forget(call_id)

    def _forget(self, call_id: str) -> None:
        del self.in_flight[call_id]
        self._ends = [end for end in self._ends if getattr(end[3], "call_id", None) != call_id]
        heapify(self._ends)

    def _call(self, call: Call) -> None:
        self.in_flight[call.call_id] = call
        reply = self.answer(call)
        if reply is None:
            return
        worker = None if reply.worker_id is None else WorkerRef(reply.worker_id, "http://w")
        at = Instant(self.now + reply.after_ms * MS)
        is_missing = worker is None or reply.is_untaken
        if reply.error and isinstance(call, CallService) and is_missing:
            end: FlowInput = CalleeUnavailable(call.call_id, reply.error, worker)
        elif reply.error:
            end = Failed(call.call_id, reply.error, worker, reply.is_final, reply.is_last)
        else:
            end = Answered(call.call_id, reply.result, worker)
        self._push(at, 1, end)

    def _push(self, at: Instant, rank: int, flow_input: FlowInput) -> None:
        self._counter += 1
        heappush(self._ends, (at, rank, self._counter, flow_input))

    def _next_at(self) -> Instant | None:
        times = [self._ends[0][0]] if self._ends else []
        if self._wake_at is not None:
            times.append(self._wake_at)
        return min(times, default=None)
