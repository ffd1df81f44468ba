"""The parts of a flow, as immutable values that were checked when the flow was published."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from headway.core.flow.definition.paths import Path
from headway.core.flow.definition.predicates import Predicate

END: Final = ""
"""The target of an edge that ends the flow."""
DEFAULT: Final = "default"
"""The action of a node that names no action.

The `default` edge is also the fallback: it is followed if the node has no edge for its action.
"""
ERROR: Final = "error"
"""The action of a failed node, unless `on_error` names another action."""
ANY_ERROR: Final = "*"
RESERVED_KEY: Final = "_rt"
"""The shared-state key under which readers find the state of the current node.

No node may write this key.
"""
WORKER_WAIT_MS: Final = 300_000
"""How long a call waits for a worker before it fails, unless the flow sets another time."""
KEY_LENGTH_MAX: Final = 520
"""The maximum length of a shared-state key, in characters of the key's JSON text."""


def key_problem(key: str) -> str | None:
    """Return why `key` must not be set in the shared state, or None if it may be set."""
    if key == RESERVED_KEY:
        return f"must not be {RESERVED_KEY}, which is reserved for the run state"
    length = len(json.dumps(key, ensure_ascii=False))
    if length > KEY_LENGTH_MAX:
        return f"has {length:,} characters as JSON; the limit is {KEY_LENGTH_MAX}"
    return None


class Kind(StrEnum):
    EXECUTOR = "executor"
    LOCAL = "local"
    FLOW_REF = "flow_ref"
    CHOICE = "choice"
    PARALLEL = "parallel"
    FOREACH = "foreach"
    SUBFLOW = "subflow"
    TIMER = "timer"
    WAIT_EVENT = "wait_event"
    APPROVAL = "approval"
    FAIL = "fail"


CALLING_KINDS: Final = frozenset({Kind.EXECUTOR, Kind.LOCAL, Kind.FLOW_REF})
"""The kinds that make one call: to a worker, to a function, or to another flow."""
BRANCHING_KINDS: Final = frozenset({Kind.PARALLEL, Kind.FOREACH})
"""The kinds that have branches and make a call in each branch."""
WAITING_KINDS: Final = frozenset({Kind.TIMER, Kind.WAIT_EVENT, Kind.APPROVAL})
"""The kinds that wait and make no call."""
AWAITED_PATH_PARAMS: Final = {Kind.WAIT_EVENT: "signal_key", Kind.APPROVAL: "approval_key"}
"""For each kind that waits for a signal, the parameter with the path of the awaited value."""


class ErrorPolicy(StrEnum):
    """How a task continues after a failed node that has no edge for its action.

    A node has failed when its last retry has failed.
    """

    FOLLOW_DEFAULT = "follow_default"
    """Follow the node's `error` edge, else its `default` edge, else fail the task."""
    FAIL = "fail"
    """Follow the node's `error` edge, else fail the task.

    A call that finds no worker waits for one before it fails.
    """


class ParallelMode(StrEnum):
    SEQUENTIAL = "sequential"
    CONCURRENT = "concurrent"


class FailureStrategy(StrEnum):
    FAIL_FAST = "fail_fast"
    """After a branch has failed, start no more branches and wait for those in flight.

    The output contains the successful results. Under `ErrorPolicy.FAIL` the node has then failed.
    Under `ErrorPolicy.FOLLOW_DEFAULT` the task continues.
    """
    COLLECT_ERRORS = "collect_errors"
    IGNORE_ERRORS = "ignore_errors"


class Edge(NamedTuple):
    source: str
    action: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prep:
    input_key: Path | None = None
    input_map: Mapping[str, Path] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    output_key: str = ""
    output_map: Mapping[str, str] | None = None
    action_static: str = ""
    action_key: str = ""
    error_key: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceCase:
    action: str
    expr: Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of any kind.

    The class has the fields of all kinds. `fields.py` states which kinds use each field.
    """

    key: str
    kind: Kind
    service: str = ""
    function: str = ""
    flow: str = ""
    version: int = 0
    """The version of `flow`.

    0 means the newest version that is published when the child run starts.
    """
    params: Mapping[str, Any] = field(default_factory=dict)
    prep: Prep = Prep()
    post: Post = Post()
    default_action: str = ""
    max_retries: int = 0
    wait_ms: int = 0
    max_attempts: int = 0
    """How many workers may be called within one try. 0 means every live worker."""
    attempt_delay_ms: int = 0
    weighted_by_load: bool = False
    timeout_ms: int = 0
    on_error: Mapping[str, str] = field(default_factory=dict)
    parallel_services: tuple[str, ...] = ()
    parallel_mode: ParallelMode = ParallelMode.SEQUENTIAL
    max_parallel: int = 0
    failure_strategy: FailureStrategy = FailureStrategy.FAIL_FAST
    choice_cases: tuple[ChoiceCase, ...] = ()
    subflow: "Flow | None" = None
    edges: Mapping[str, str] = field(default_factory=dict)
    """The edges that leave the node, as a map from an edge's action to its target."""

    def action_for(self, error: str) -> str | None:
        """Return the action that `on_error` names for an error, or None if it names none.

        The whole error text is matched first, then the text before its first colon, then `*`.
        """
        mapped = self.on_error.get(error) or self.on_error.get(error.partition(":")[0])
        return mapped or self.on_error.get(ANY_ERROR)


@dataclass(frozen=True, slots=True)
class Flow:
    start: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    """The edges of the flow, sorted, because their order in the definition has no meaning."""
    error_policy: ErrorPolicy = ErrorPolicy.FOLLOW_DEFAULT
    """A subflow has the policy of the definition that contains it."""
    worker_wait_ms: int = WORKER_WAIT_MS
    """How long a call waits for a worker under `ErrorPolicy.FAIL`. 0 means no wait."""

    @property
    def fails_on_error(self) -> bool:
        return self.error_policy is ErrorPolicy.FAIL
