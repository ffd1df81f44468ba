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
"""The action of a node that names no action. Its edge is also the fallback edge.

The fallback edge is followed for an action without an edge.
"""
ERROR: Final = "error"
"""The action of a failed node, unless `on_error` names another."""
ANY_ERROR: Final = "*"
RESERVED_KEY: Final = "_rt"
"""The key of the shared state under which readers find the state of the current node.

No node may write this key.
"""
WORKER_WAIT_MS: Final = 300_000
"""How long a call waits for a worker before it fails, unless the flow sets another time."""
KEY_LENGTH_MAX: Final = 520
"""The maximum length of a key of the shared state, in characters of its stored JSON text."""


def key_problem(key: str) -> str | None:
    """Return why `key` of the shared state must not be written, or None if it may be."""
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
"""The kinds that make a call in each of their branches."""
WAITING_KINDS: Final = frozenset({Kind.TIMER, Kind.WAIT_EVENT, Kind.APPROVAL})
"""The kinds that wait without a call."""
AWAITED_PATH_PARAMS: Final = {Kind.WAIT_EVENT: "signal_key", Kind.APPROVAL: "approval_key"}
"""Maps the kinds that wait for a signal to the parameter with the path of the awaited value."""


class ErrorPolicy(StrEnum):
    """The policy for a node that has failed after its retries and has no edge for its action."""

    FOLLOW_DEFAULT = "follow_default"
    """Follow the node's `error` edge, else its `default` edge, else fail the task."""
    FAIL = "fail"
    """Follow the node's `error` edge, else fail the task.

    The task first waits for a missing worker.
    """


class ParallelMode(StrEnum):
    SEQUENTIAL = "sequential"
    CONCURRENT = "concurrent"


class FailureStrategy(StrEnum):
    FAIL_FAST = "fail_fast"
    """Start no more branches, wait for those in flight, and return the successful results.

    Under `ErrorPolicy.FAIL` the node has then failed, else the task continues.
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

    One class serves all kinds, as in the definition. `fields.py` states which kinds use which
    field.
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
    """How many workers are called within one try. 0 means every live one."""
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
    """Maps the action of each edge that leaves the node to its target."""

    def action_for(self, error: str) -> str | None:
        """Return the action that `on_error` gives an error, or None.

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
