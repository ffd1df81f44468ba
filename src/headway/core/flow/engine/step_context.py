"""The context of one step: the state that it changes, and the result that it builds."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeGuard

from headway.core.document import NAME_LENGTH_MAX
from headway.core.flow.definition.definition import DEFAULT, END, ERROR, Flow, Node
from headway.core.flow.definition.paths import PathScope, parse_path, resolve
from headway.core.flow.engine.effects import CancelCall
from headway.core.flow.engine.inputs import WorkerRef
from headway.core.flow.engine.state import (
    Branch,
    FlowState,
    Frame,
    NodeRun,
    NodeRunStatus,
    StepResult,
)
from headway.core.ids import Instant
from headway.core.run.status import RunStatus

MILLISECOND: Final = 1_000
"""One millisecond in microseconds, the unit of an Instant."""
ROW_COUNT_MAX: Final = 1_000_000
"""The maximum number of node runs of one run."""
TOO_MANY_STEPS: Final = "too_many_steps"


class Failure(NamedTuple):
    error: str
    path: tuple[str, ...]
    """The path of the node that failed, outermost first."""


class StepContext:
    """Changes the state of a run within one step, and collects the result."""

    def __init__(self, state: FlowState, now: Instant) -> None:
        self.state = state
        self.now = now
        self.result = StepResult()

    def enter(self, frame: Frame) -> None:
        """Begin the node of the frame. The handler of the node's kind continues from there."""
        frame.is_entered = True
        frame.entered_at = self.now
        frame.entered_row_count = self.state.row_count
        frame.retry_at = None
        if frame is self.state.frames[0]:
            self._unfreeze_input()
        frame.input, frame.merged_params = resolve_input(frame)

    # Successes.

    def succeed(
        self,
        frame: Frame,
        output: Any,
        *,
        action: str | None = None,
        branch: Branch | None = None,
        worker: WorkerRef | None = None,
    ) -> None:
        """Finish the node: save its output, record its success, and follow its action."""
        self.save_output(frame, output)
        chosen = action or choose_action(frame, output)
        self.record(
            frame, NodeRunStatus.OK, output=output, action=chosen, branch=branch, worker=worker
        )
        self.follow(frame, chosen)

    def save_output(self, frame: Frame, output: Any) -> None:
        post = frame.node.post
        if post.output_map and isinstance(output, dict):
            for key, name in post.output_map.items():
                self.set_shared(frame, key, output.get(name))
        if post.output_key:
            self.set_shared(frame, post.output_key, output)

    def follow(self, frame: Frame, action: str, *, failure: Failure | None = None) -> None:
        """Take the edge of `action`, else the fallback edge, else end the flow.

        After a failure under `ErrorPolicy.FAIL`, the fallback is the `error` edge. Otherwise it is
        the `default` edge. If a failure falls back to a `default` edge that leads to the end, the
        flow fails.
        """
        self.state.last_action = action
        edges = frame.node.edges
        is_strict = failure is not None and frame.flow.fails_on_error
        target = edges.get(action, edges.get(ERROR) if is_strict else None)
        has_own_edge = target is not None
        if target is None and not is_strict:
            target = edges.get(DEFAULT)
        if target is not None and target != END:
            self._move(frame, target)
        else:
            self._end_flow(None if has_own_edge else failure)

    # Failures.

    def fail_try(
        self, frame: Frame, error: str, *, is_final: bool = False, path: tuple[str, ...] = ()
    ) -> None:
        """Record that this try of the whole node has failed. A retry may follow.

        If a node within a subflow caused the failure, `path` is the path of that node.
        """
        node = frame.node
        if not is_final and frame.try_no <= node.max_retries:
            self.record(frame, NodeRunStatus.ERROR, error=error, is_settled=False)
            frame.try_no += 1
            frame.is_entered = False
            frame.ends_at = None
            frame.reset_try()
            frame.retry_at = Instant(self.now + node.wait_ms * MILLISECOND)
            return
        self.fail(frame, error, path=path)

    def fail(
        self,
        frame: Frame,
        error: str,
        *,
        branch: Branch | None = None,
        worker: WorkerRef | None = None,
        path: tuple[str, ...] = (),
    ) -> None:
        """Fail the node permanently: record the failure, and follow the action for the error."""
        action = self.save_error(frame, error)
        self.record(
            frame, NodeRunStatus.ERROR, error=error, action=action, branch=branch, worker=worker
        )
        self.follow(frame, action, failure=Failure(error, path or self.path_of(frame)))

    def save_error(self, frame: Frame, error: str) -> str:
        """Write the error to the node's `error_key`, if set, and return the action to follow."""
        if frame.node.post.error_key:
            self.set_shared(frame, frame.node.post.error_key, error)
        return frame.node.action_for(error) or ERROR

    # Recording, shared state and frames.

    def record(
        self,
        frame: Frame,
        status: NodeRunStatus,
        *,
        output: Any = None,
        error: str = "",
        action: str = "",
        branch: Branch | None = None,
        worker: WorkerRef | None = None,
        is_settled: bool = True,
    ) -> None:
        """Record a finished try of the node or of one of its branches."""
        state = self.state
        state.row_count += 1
        path = self.path_of(frame)
        started_at = frame.entered_at if frame.is_entered else self.now
        if branch is not None:
            started_at = self.now if branch.started_at is None else branch.started_at
        row = NodeRun(
            state.row_count,
            path[0],
            path,
            None if branch is None else branch.index,
            frame.try_no if branch is None else branch.try_no,
            status,
            _describe_prep(frame, path, branch),
            frame.input if branch is None else frame.input_of(branch),
            output,
            error,
            action,
            started_at,
            self.now,
            worker,
            is_settled,
        )
        self.result.rows.append(row)

    def path_of(self, frame: Frame) -> tuple[str, ...]:
        """Return the keys of the nodes from the outermost one to the node of `frame`."""
        frames = self.state.frames
        return tuple([outer.node.key for outer in frames[: frames.index(frame) + 1]])

    def set_shared(self, frame: Frame, key: str, value: Any) -> None:
        frame.shared[key] = value
        self._mark_changed(frame, key)

    def remove_shared(self, frame: Frame, key: str) -> None:
        self.freeze_input(key)
        del frame.shared[key]
        self._mark_changed(frame, key)

    def freeze_input(self, key: str) -> None:
        """Preserve the current node's input, if it was read from `key`, before `key` changes."""
        state, frame = self.state, self.state.frames[0]
        if state.frozen_input is not None or state.is_over:
            return
        if frame.is_entered and reads_shared(frame.node, key):
            state.frozen_input = (frame.input,)
            self.result.is_frozen_changed = True

    def push_subflow(self, frame: Frame, flow: Flow) -> None:
        """Begin a subflow within the node of `frame`."""
        params = dict(frame.merged_params)
        if has_prep(frame.node):
            params["input"] = frame.input
        self.state.frames.append(Frame(flow, params, {}, flow.nodes[flow.start]))
        self.result.is_inner_changed = True

    def drop_inner_frames(self, frame: Frame) -> None:
        """Abandon everything within the node of `frame`."""
        frames = self.state.frames
        self.cancel_calls()
        while frames[-1] is not frame:
            frames.pop()
            self.result.is_inner_changed = True

    def cancel_calls(self) -> None:
        frame = self.state.frames[-1]
        for branch in frame.open_branches.values():
            self.cancel_call(frame, branch)

    def cancel_call(self, frame: Frame, branch: Branch) -> None:
        if branch.is_issued:
            cancel = CancelCall(branch.call_id, is_child=bool(frame.node.flow))
            self.result.effects.append(cancel)

    def finish(self, status: RunStatus, error: str = "") -> None:
        state = self.state
        if len(state.frames) > 1:
            del state.frames[1:]
            self.result.is_inner_changed = True
        state.status = status
        state.error = error
        state.frames[0].reset_try()
        self._unfreeze_input()

    def _move(self, frame: Frame, target: str) -> None:
        if self.state.row_count >= ROW_COUNT_MAX:
            self.finish(RunStatus.FAILED, TOO_MANY_STEPS)
            return
        frame.move_to(frame.flow.nodes[target])

    def _end_flow(self, failure: Failure | None) -> None:
        frames = self.state.frames
        if len(frames) == 1:
            if failure is None:
                self.finish(RunStatus.SUCCEEDED)
            else:
                self.finish(RunStatus.FAILED, failure.error)
                self.state.failed_path = failure.path
            return
        inner = frames.pop()
        self.result.is_inner_changed = True
        outer = frames[-1]
        if failure is not None:
            self.fail_try(outer, failure.error, path=failure.path)
        else:
            # The inner nodes have node runs; the subflow itself has none (R5.12).
            self.save_output(outer, inner.shared)
            self.follow(outer, choose_action(outer, inner.shared))

    def _mark_changed(self, frame: Frame, key: str) -> None:
        if frame is self.state.frames[0]:
            self.result.shared_keys.add(key)
        else:
            self.result.is_inner_changed = True

    def _unfreeze_input(self) -> None:
        if self.state.frozen_input is not None:
            self.state.frozen_input = None
            self.result.is_frozen_changed = True


def resolve_input(frame: Frame) -> tuple[Any, Mapping[str, Any]]:
    """Return the input of the frame's node, and the parameters of the flow and the node.

    The node's parameters take precedence over those of the flow.
    """
    node = frame.node
    merged = {**frame.params, **node.params} if node.params else frame.params
    prep = node.prep
    if prep.input_map is None and prep.input_key is None:
        return None, merged
    # Within `prep`, `$input` is the input of the flow that contains the node.
    scope = PathScope(merged, frame.shared, frame.params.get("input"))
    if prep.input_map is not None:
        return {key: resolve(path, scope) for key, path in prep.input_map.items()}, merged
    assert prep.input_key is not None
    return resolve(prep.input_key, scope), merged


def choose_action(frame: Frame, output: Any) -> str:
    """Return the static action, else the action at `action_key`, else the default (R5.12)."""
    node = frame.node
    return node.post.action_static or find_action(frame, output) or node.default_action or DEFAULT


def find_action(frame: Frame, output: Any) -> str:
    """Return the action that `action_key` refers to, or an empty text if there is none.

    A name is searched in the output, then in the shared state. A path is resolved.
    """
    key = frame.node.post.action_key
    if not key:
        return ""
    if key.startswith("$"):
        scope = PathScope(frame.merged_params, frame.shared, frame.input)
        candidates: tuple[Any, ...] = (resolve(parse_path(key), scope),)
    else:
        in_output = output.get(key) if isinstance(output, dict) else None
        candidates = (in_output, frame.shared.get(key))
    return next((value for value in candidates if is_action(value)), "")


def is_action(value: Any) -> TypeGuard[str]:
    """Return whether a value can be an action: a non-empty text no longer than a name."""
    return isinstance(value, str) and 0 < len(value) <= NAME_LENGTH_MAX


def has_prep(node: Node) -> bool:
    return node.prep.input_key is not None or node.prep.input_map is not None


def reads_shared(node: Node, key: str) -> bool:
    prep = node.prep
    if prep.input_map is not None:
        return any(path.shared_key == key for path in prep.input_map.values())
    return prep.input_key is not None and prep.input_key.shared_key == key


def _describe_prep(frame: Frame, path: tuple[str, ...], branch: Branch | None) -> dict[str, Any]:
    """Describe where the node's input came from, and which branch or inner node got it."""
    described: dict[str, Any] = {}
    prep = frame.node.prep
    if prep.input_map is not None:
        described["input_map"] = {key: source.text for key, source in prep.input_map.items()}
    elif prep.input_key is not None:
        described["input_key"] = prep.input_key.text
    if len(path) > 1:
        described["sub"] = "/".join(path[1:])
    if branch is not None and frame.services:
        described["branch"] = frame.services[branch.index]
    elif branch is not None and frame.items is not None:
        described["index"] = branch.index
    return described
