"""Where a flow run is: a small cursor, the shared states, and the node runs it has recorded.

In memory a `State` is one value, which `step` changes in place. It is stored in parts, so that a
step writes little: the cursor with every commit, the keys of the shared state that changed, and new
node runs. Whatever else is here is found again from those when a run is loaded (`stored.py`).
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
    """One try of a node, or of one of its branches, that is over."""

    seq: int
    """1, 2, 3 … within the run, in the order of their ends."""
    node_key: str
    """The node of the run's own flow, also for what happened within a subflow."""
    path: tuple[str, ...]
    """From there inwards, to the node that was tried."""
    branch: int | None
    attempt: int
    """Which try of the node, or of the branch, from 1."""
    status: NodeRunStatus
    prep: Mapping[str, Any]
    input: Any
    output: Any
    error: str
    action: str
    """The action that was followed; empty if the node was not over."""
    started_at: Instant
    finished_at: Instant
    worker: WorkerRef | None
    is_settled: bool
    """Whether its node or branch is decided, so that there is no further try."""


@dataclass(slots=True)
class Branch:
    """A call that is under way, or will be made."""

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
    """When it is to be called; None while the call is under way."""
    deadline_at: Instant | None = None
    is_issued: bool = False
    """Whether somebody may be at work on `call_id`; after a crash nobody knows better."""
    is_awaiting_callee: bool = False
    """Whether nobody could make the call where it was tried last, and it is to be tried again."""
    awaited_service: str = ""
    """The service that no live worker offered. It is called when one does, or at `call_at`."""

    @property
    def alarm_at(self) -> Instant | None:
        if self.call_at is None or self.deadline_at is None:
            return self.deadline_at if self.call_at is None else self.call_at
        return min(self.call_at, self.deadline_at)


@dataclass(slots=True, eq=False)
class Frame:
    """A flow that is being walked: the run's own, or a subflow within the frame before."""

    flow: Flow
    params: Mapping[str, Any]
    shared: dict[str, Any]
    node: Node
    is_entered: bool = False
    entered_at: Instant = LONG_AGO
    entered_row_count: int = 0
    """How many node runs there were when it was entered."""
    try_no: int = 1
    ends_at: Instant | None = None
    """The end of the timer, of the wait, or of the subflow's time."""
    retry_at: Instant | None = None
    """It failed, and is entered again then."""
    input: Any = None
    merged_params: Mapping[str, Any] = field(default_factory=dict)
    """The node's parameters over those of the flow."""
    services: tuple[str, ...] = ()
    """One for each branch, of a parallel node."""
    items: list[Any] | None = None
    """One for each branch, of a foreach node."""
    branch_count: int = 0
    launched_count: int = 0
    open_branches: dict[int, Branch] = field(default_factory=dict)
    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    """In the order in which they came."""
    alarms: list[tuple[Instant, int]] = field(default_factory=list)
    """A heap of when branches ring; one that was put off stays, and is passed over."""
    result_byte_count: int = 0
    """How many bytes its branches have said, results and errors, as JSON."""
    has_tried_another_worker: bool = False
    """Whether a branch may already call its second worker or a later one."""
    missing_since: dict[str, Instant] = field(default_factory=dict)
    """When a call first found no worker for a service; cleared when there is one.

    All branches and tries of the node share it, so that one limit applies to all their waits.
    """

    @property
    def is_stopped(self) -> bool:
        """Whether a branch has failed, and no more are to be started."""
        return bool(self.errors) and self.node.failure_strategy is FailureStrategy.FAIL_FAST

    @property
    def is_awaiting_callee(self) -> bool:
        """Whether there is a call that nobody could make so far."""
        return any(one.is_awaiting_callee for one in self.open_branches.values())

    @property
    def awaited_services(self) -> set[str]:
        """Return the services for which calls wait until a live worker offers them."""
        return {one.awaited_service for one in self.open_branches.values() if one.awaited_service}

    def service_of(self, branch: Branch) -> str:
        return self.services[branch.index] if self.services else self.node.service

    def input_of(self, branch: Branch) -> Any:
        return self.input if self.items is None else self.items[branch.index]

    def move_to(self, node: Node) -> None:
        """Stand before `node`, with everything of the last one forgotten."""
        self.node = node
        self.is_entered = False
        self.entered_row_count = 0
        self.try_no = 1
        self.ends_at = self.retry_at = None
        self.reset_try()

    def reset_try(self) -> None:
        """Of this try, all that was found out."""
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
    """The error code of a `fail` node that has one."""
    failed_path: tuple[str, ...] = ()
    """The path of the node whose failure ended the run, outermost first. It is not stored."""
    frozen_input: tuple[Any] | None = None
    """The input of the run's node as it was, when a signal has changed what it came from."""

    @property
    def is_over(self) -> bool:
        return self.status is not RunStatus.RUNNING

    @property
    def shared(self) -> dict[str, Any]:
        return self.frames[0].shared


@dataclass(slots=True)
class StepResult:
    """What a step has changed, and wants done. All of it is stored together, or none."""

    rows: list[NodeRun] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    shared_keys: set[str] = field(default_factory=set)
    """The keys of the run's own shared state that were set or, if they are gone, removed."""
    is_inner_changed: bool = False
    """Whether the shared states of subflows are to be stored again."""
    is_frozen_changed: bool = False
    is_changed: bool = True
    """False when what happened concerned nobody any more: there is nothing to store."""
    wake_at: Instant | None = None
    """When the run is to be woken. In the past: at once."""
