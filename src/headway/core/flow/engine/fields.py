"""The fields of a definition: one table, from which it is read, written, and told to editors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from headway.core.flow.definition.definition import (
    ErrorPolicy,
    FailureStrategy,
    Kind,
    ParallelMode,
    Post,
    Prep,
)
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.definition.shapes import (
    AnyObject,
    CaseShape,
    Count,
    EnumValue,
    ErrorActions,
    Flag,
    JsonSchema,
    ListOf,
    MapOf,
    NameOrPath,
    PathText,
    Shape,
    Text,
    iter_members,
)
from headway.core.flow.engine.node_handler import DELAY_MS_MAX

R = TypeVar("R", Prep, Post)

RETRY_COUNT_MAX: Final = 1_000
ATTEMPT_COUNT_MAX: Final = 100
PARALLEL_COUNT_MAX: Final = 1_000
CASE_COUNT_MAX: Final = 1_000
VERSION_MAX: Final = 2**31 - 1

_BRANCHING_KINDS: Final = frozenset({Kind.PARALLEL, Kind.FOREACH})
_CALLING_KINDS: Final = _BRANCHING_KINDS | {Kind.EXECUTOR, Kind.LOCAL, Kind.FLOW_REF}
_REMOTE_KINDS: Final = _BRANCHING_KINDS | {Kind.EXECUTOR}
_RETRYING_KINDS: Final = _CALLING_KINDS | {Kind.SUBFLOW, Kind.WAIT_EVENT, Kind.APPROVAL}


@dataclass(frozen=True, slots=True)
class NodeField:
    shape: Shape
    description: str
    kinds: frozenset[Kind] | None = None
    """Those for which it means something; None is all of them."""


@dataclass(frozen=True, slots=True)
class ObjectOf(Generic[R]):
    """An object with fields of its own."""

    target: type[R]
    fields: Mapping[str, Shape]

    def parse(self, value: Any, place: str, report: Diagnostics) -> R:
        return self.target(
            **{
                name: self.fields[name].parse(one, join_path(place, name), report)
                for name, one in iter_members(value, self.fields, place, report)
            }
        )

    def to_json(self, value: R) -> dict[str, Any]:
        return {
            name: shape.to_json(getattr(value, name))
            for name, shape in self.fields.items()
            if getattr(value, name) not in (None, "")
        }

    def schema(self) -> JsonSchema:
        properties = {name: or_empty(shape.schema()) for name, shape in self.fields.items()}
        return {"type": "object", "properties": properties}


def or_empty(schema: JsonSchema) -> JsonSchema:
    """An absent field may also be written as null or as an empty text."""
    return {"anyOf": [{"enum": [None, ""]}, schema]}


PREP: Final = ObjectOf(Prep, {"input_key": PathText(), "input_map": MapOf(PathText())})
POST: Final = ObjectOf(
    Post,
    {
        "output_key": Text(is_shared_key=True),
        "output_map": MapOf(Text(), has_shared_keys=True),
        "action_static": Text(),
        "action_key": NameOrPath(),
        "error_key": Text(is_shared_key=True),
    },
)

FLOW_SETTINGS: Final[Mapping[str, tuple[Shape, str]]] = {
    "error_policy": (
        EnumValue(ErrorPolicy),
        "The policy for a failed node without an `error` edge: follow `default`, or fail the task",
    ),
    "worker_wait_ms": (
        Count(DELAY_MS_MAX),
        "How long a call waits for a worker if `error_policy` is `fail`; 0: no wait",
    ),
}
"""The fields of a whole definition, with their descriptions. Subflows do not have them."""

# All but `kind`, which says what the others mean, and `subflow`, which holds a flow again.
NODE_FIELDS: Final[Mapping[str, NodeField]] = {
    "service": NodeField(
        Text(), "The service that a worker offers", frozenset({Kind.EXECUTOR, Kind.FOREACH})
    ),
    "function": NodeField(
        Text(), "The registered Python function", frozenset({Kind.LOCAL, Kind.FOREACH})
    ),
    "flow": NodeField(
        Text(), "The flow that runs as a child", frozenset({Kind.FLOW_REF, Kind.FOREACH})
    ),
    "version": NodeField(
        Count(VERSION_MAX),
        "The version of `flow`; without it, the newest published one",
        frozenset({Kind.FLOW_REF, Kind.FOREACH}),
    ),
    "params": NodeField(AnyObject(), "Parameters; they win over those of the run"),
    "prep": NodeField(PREP, "Where the input comes from"),
    "post": NodeField(POST, "Where the output goes, and which action follows"),
    "default_action": NodeField(Text(), "The action, if nothing else names one"),
    "max_retries": NodeField(
        Count(RETRY_COUNT_MAX), "How often a failure is tried again", _RETRYING_KINDS
    ),
    "wait_ms": NodeField(Count(DELAY_MS_MAX), "How long to wait before that", _RETRYING_KINDS),
    "max_attempts": NodeField(
        Count(ATTEMPT_COUNT_MAX),
        "How many workers are called within one try; absent or 0: every live one",
        _REMOTE_KINDS,
    ),
    "attempt_delay_ms": NodeField(
        Count(DELAY_MS_MAX), "How long to wait between them", _REMOTE_KINDS
    ),
    "weighted_by_load": NodeField(
        Flag(), "Whether the worker with the least load goes first", _REMOTE_KINDS
    ),
    "timeout_ms": NodeField(
        Count(DELAY_MS_MAX),
        "How long one try may take; 0: no limit of its own (a worker has 300 s at most)",
        _RETRYING_KINDS,
    ),
    "on_error": NodeField(ErrorActions(), "The action after a failure: one, or one for each error"),
    "parallel_services": NodeField(
        ListOf(Text(), PARALLEL_COUNT_MAX), "A branch for each", frozenset({Kind.PARALLEL})
    ),
    "parallel_mode": NodeField(
        EnumValue(ParallelMode), "One after the other, or at once", _BRANCHING_KINDS
    ),
    "max_parallel": NodeField(
        Count(PARALLEL_COUNT_MAX), "How many branches are under way at once", _BRANCHING_KINDS
    ),
    "failure_strategy": NodeField(
        EnumValue(FailureStrategy), "What a failed branch means", _BRANCHING_KINDS
    ),
    "choice_cases": NodeField(
        ListOf(CaseShape(), CASE_COUNT_MAX),
        "The first case that holds gives the action",
        frozenset({Kind.CHOICE}),
    ),
}
