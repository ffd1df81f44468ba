"""The fields of a definition: one table to parse, write and describe them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from headway.core.flow.definition.definition import (
    AWAITED_PATH_PARAMS,
    BRANCHING_KINDS,
    CALLING_KINDS,
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

_REMOTE_KINDS: Final = BRANCHING_KINDS | {Kind.EXECUTOR}
_RETRYING_KINDS: Final = (
    CALLING_KINDS | BRANCHING_KINDS | AWAITED_PATH_PARAMS.keys() | {Kind.SUBFLOW}
)


@dataclass(frozen=True, slots=True)
class NodeField:
    shape: Shape
    description: str
    kinds: frozenset[Kind] | None = None
    """The kinds of nodes that use the field. None means all kinds."""


@dataclass(frozen=True, slots=True)
class ObjectOf(Generic[R]):
    """An object with a fixed set of fields."""

    target: type[R]
    fields: Mapping[str, Shape]

    def parse(self, value: Any, path: str, diagnostics: Diagnostics) -> R:
        return self.target(
            **{
                name: self.fields[name].parse(member, join_path(path, name), diagnostics)
                for name, member in iter_members(value, self.fields, path, diagnostics)
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
    """Return a schema that also accepts null and an empty text, which count as absent."""
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
"""The settings of a whole definition, with their descriptions. Subflows have no settings."""

# All node fields except `kind`, which decides which fields are used, and `subflow`, a flow.
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
    "params": NodeField(AnyObject(), "Parameters; they take precedence over those of the run"),
    "prep": NodeField(PREP, "Where the input comes from"),
    "post": NodeField(POST, "Where the output goes, and which action follows"),
    "default_action": NodeField(Text(), "The action if nothing else names one"),
    "max_retries": NodeField(
        Count(RETRY_COUNT_MAX), "How many times a failed try is repeated", _RETRYING_KINDS
    ),
    "wait_ms": NodeField(
        Count(DELAY_MS_MAX), "How long to wait before each retry", _RETRYING_KINDS
    ),
    "max_attempts": NodeField(
        Count(ATTEMPT_COUNT_MAX),
        "How many workers are called within one try; absent or 0: every live one",
        _REMOTE_KINDS,
    ),
    "attempt_delay_ms": NodeField(
        Count(DELAY_MS_MAX), "How long to wait between two workers", _REMOTE_KINDS
    ),
    "weighted_by_load": NodeField(
        Flag(), "Call the worker with the least load first", _REMOTE_KINDS
    ),
    "timeout_ms": NodeField(
        Count(DELAY_MS_MAX),
        "How long one try may take; 0: no limit (a worker call still ends after 300 s)",
        _RETRYING_KINDS,
    ),
    "on_error": NodeField(ErrorActions(), "The action after a failure: one, or one for each error"),
    "parallel_services": NodeField(
        ListOf(Text(), PARALLEL_COUNT_MAX),
        "The services; each is called in its own branch",
        frozenset({Kind.PARALLEL}),
    ),
    "parallel_mode": NodeField(
        EnumValue(ParallelMode),
        "Run the branches one after the other, or at once",
        BRANCHING_KINDS,
    ),
    "max_parallel": NodeField(
        Count(PARALLEL_COUNT_MAX), "How many branches are in flight at once", BRANCHING_KINDS
    ),
    "failure_strategy": NodeField(
        EnumValue(FailureStrategy), "How a failed branch affects the node", BRANCHING_KINDS
    ),
    "choice_cases": NodeField(
        ListOf(CaseShape(), CASE_COUNT_MAX),
        "The first case whose expression is true gives the action",
        frozenset({Kind.CHOICE}),
    ),
}
