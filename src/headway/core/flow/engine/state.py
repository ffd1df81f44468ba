"""The state of a flow run: a small cursor, the shared states, and its recorded node runs.

In memory a `FlowState` is one value that `step` changes in place. It is stored in parts, so that a
step writes little: the cursor with every commit, the changed keys of the shared state, and the new
node runs. Everything else is derived from those parts when a run is loaded (`stored_state.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from headway.core.flow.definition.definition import FailureStrategy, Flow, Node
from headway.core.flow.engine.effects import Effect
from headway.core.flow.engine.inputs import WorkerRef
from headway.core.ids import Instant
from headway.core.run.status import RunStatus

LONG_AGO: Final = Instant(0)


class NodeRunStatus(StrEnum):
    OK = "ok"
    ERROR = "error"
    CANCELED = "canceled"


class NodeRun(NamedTuple):
    """A finished try of a node or of one of its branches."""

    seq: int
    """The number of this node run. A run's node runs are numbered from 1, in order of ending."""
    node_key: str
    """The key of the node in the run's own flow, even if the try was within its subflow."""
    path: tuple[str, ...]
    """The keys of the nodes from `node_key` inwards to the node that was tried."""
    branch: int | None
    attempt: int
    """The number of this try of the node or branch, from 1."""
    status: NodeRunStatus
    prep: Mapping[str, Any]
    input: Any
    output: Any
    error: str
    action: str
    """The action that was followed. Empty if the node had not finished."""
    started_at: Instant
    finished_at: Instant
    worker: WorkerRef | None
    is_settled: bool
    """True if the outcome of the node or branch is final, so that no further try follows."""


@dataclass(slots=True)
class Branch:
    """A call that is in flight or will be made."""

    index: int
    call_id: str
    try_no: int = 1
    attempt: int = 1
    excluded: tuple[str, ...] = ()
    error: str = ""
    """The error of the worker that was called last."""
    worker: WorkerRef | None = None
    """The worker that was called last."""
    started_at: Instant | None = None
    call_at: Instant | None = None
    """When to make the call. None while the call is in flight."""
    deadline_at: Instant | None = None
    is_issued: bool = False
    """True if a callee may be working on the call.

    After a crash this is assumed, unless the time of the next call was stored.
    """
    is_awaiting_callee: bool = False
    """True if the last attempt found no callee, so that the call will be tried again."""
    awaited_service: str = ""
    """The service for which the call waits, because no live worker offered it, or empty.

    The call is made when a worker offers the service, or at `call_at`.
    """

    @property
    def alarm_at(self) -> Instant | None:
        """When the branch must be woken: at its call time, or at its deadline if it is earlier."""
        if self.call_at is None or self.deadline_at is None:
            return self.deadline_at if self.call_at is None else self.call_at
        return min(self.call_at, self.deadline_at)


@dataclass(slots=True, eq=False)
class Frame:
    """A flow in execution: the run's own flow, or a subflow in the node of the previous frame."""

    flow: Flow
    params: Mapping[str, Any]
    shared: dict[str, Any]
    node: Node
    is_entered: bool = False
    entered_at: Instant = LONG_AGO
    entered_row_count: int = 0
    """How many node runs existed when the node was entered."""
    try_no: int = 1
    ends_at: Instant | None = None
    """When the timer ends, or when the wait or the subflow times out."""
    retry_at: Instant | None = None
    """When a failed node is entered again."""
    input: Any = None
    merged_params: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the flow and of the node. The node's parameters take precedence."""
    services: tuple[str, ...] = ()
    """The service of each branch of a parallel node."""
    items: list[Any] | None = None
    """The item of each branch of a foreach node."""
    branch_count: int = 0
    launched_count: int = 0
    open_branches: dict[int, Branch] = field(default_factory=dict)
    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    """The errors by branch, in the order in which they occurred."""
    alarms: list[tuple[Instant, int]] = field(default_factory=list)
    """A heap of alarm times and branch indexes. Outdated entries stay and are skipped."""
    result_byte_count: int = 0
    """The size of the branches' results and errors as JSON, in bytes."""
    has_tried_another_worker: bool = False
    """True if a branch has scheduled a call to its second worker or a later one."""
    missing_since: dict[str, Instant] = field(default_factory=dict)
    """Maps a service to the instant when a call first found no worker for it.

    The entry is removed when the service has a worker. All branches and tries of the node share the
    entry, so that one limit applies to all their waits.
    """

    @property
    def is_stopped(self) -> bool:
        """True if a branch has failed and no more branches are to be started."""
        return bool(self.errors) and self.node.failure_strategy is FailureStrategy.FAIL_FAST

    @property
    def is_awaiting_callee(self) -> bool:
        """True if at least one call has found no callee and will be tried again."""
        return any(branch.is_awaiting_callee for branch in self.open_branches.values())

    @property
    def awaited_services(self) -> set[str]:
        """The services for which calls wait until a live worker offers them."""
        return {
            branch.awaited_service
            for branch in self.open_branches.values()
            if branch.awaited_service
        }

    def service_of(self, branch: Branch) -> str:
        return self.services[branch.index] if self.services else self.node.service

    def input_of(self, branch: Branch) -> Any:
        return self.input if self.items is None else self.items[branch.index]

    def move_to(self, node: Node) -> None:
        """Place the frame before `node`, and reset everything about the previous node."""
        self.node = node
        self.is_entered = False
        self.entered_row_count = 0
        self.try_no = 1
        self.ends_at = self.retry_at = None
        self.reset_try()

    def reset_try(self) -> None:
        """Clear everything that belongs to the current try."""
        self.input = None
        self.missing_since = {}
        if self.branch_count or self.items is not None:
            self.services, self.items = (), None
            self.branch_count = self.launched_count = self.result_byte_count = 0
            self.open_branches, self.results, self.errors, self.alarms = {}, {}, {}, []
            self.has_tried_another_worker = False


@dataclass(slots=True)
class FlowState:
    frames: list[Frame]
    row_count: int = 0
    last_action: str = ""
    status: RunStatus = RunStatus.RUNNING
    error: str = ""
    error_code: str = ""
    """The error code of the `fail` node that ended the run, or empty."""
    failed_path: tuple[str, ...] = ()
    """The path of the node whose failure ended the run, outermost first. It is not stored."""
    frozen_input: tuple[Any] | None = None
    """The input with which the current node of the run's own flow was entered, or None.

    It is set only if the source of the input has changed since, for example by a signal.
    """

    @property
    def is_over(self) -> bool:
        return self.status is not RunStatus.RUNNING

    @property
    def shared(self) -> dict[str, Any]:
        return self.frames[0].shared


@dataclass(slots=True)
class StepResult:
    """The changes of a step, which are stored in one commit, and the effects it requests."""

    rows: list[NodeRun] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    shared_keys: set[str] = field(default_factory=set)
    """The keys of the run's own shared state that the step has set or removed.

    A key that is now absent from the shared state was removed.
    """
    is_inner_changed: bool = False
    """True if the shared states of subflows must be stored again."""
    is_frozen_changed: bool = False
    is_changed: bool = True
    """False if the input had no effect, so that there is nothing to store."""
    wake_at: Instant | None = None
    """When to wake the run. A time in the past means at once."""
