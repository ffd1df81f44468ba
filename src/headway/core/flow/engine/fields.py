"""The fields of a definition: one table, from which it is read, written, and told to editors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from headway.core.flow.definition.definition import ErrorPolicy, Kind, Mode, Post, Prep, Strategy
from headway.core.flow.definition.diagnostics import Report, member
from headway.core.flow.definition.shapes import (
    AnyObject,
    CaseShape,
    Count,
    ErrorActions,
    Flag,
    JsonSchema,
    Named,
    NameOrPath,
    PathText,
    Several,
    Shape,
    Text,
    Word,
    members_of,
)
from headway.core.flow.engine.node_handler import DELAY_MS_MAX

R = TypeVar("R", Prep, Post)

RETRY_COUNT_MAX: Final = 1_000
ATTEMPT_COUNT_MAX: Final = 100
PARALLEL_COUNT_MAX: Final = 1_000
CASE_COUNT_MAX: Final = 1_000
VERSION_MAX: Final = 2**31 - 1

_BRANCHING: Final = frozenset({Kind.PARALLEL, Kind.FOREACH})
_CALLING: Final = _BRANCHING | {Kind.EXECUTOR, Kind.LOCAL, Kind.FLOW_REF}
_REMOTE: Final = _BRANCHING | {Kind.EXECUTOR}
_RETRYING: Final = _CALLING | {Kind.SUBFLOW, Kind.WAIT_EVENT, Kind.APPROVAL}


@dataclass(frozen=True, slots=True)
class Field:
    shape: Shape
    about: str
    kinds: frozenset[Kind] | None = None
    """Those for which it means something; None is all of them."""


@dataclass(frozen=True, slots=True)
class Record(Generic[R]):
    """An object with fields of its own."""

    made: type[R]
    fields: Mapping[str, Shape]

    def read(self, value: Any, place: str, report: Report) -> R:
        return self.made(
            **{
                name: self.fields[name].read(one, member(place, name), report)
                for name, one in members_of(value, self.fields, place, report)
            }
        )

    def write(self, value: R) -> dict[str, Any]:
        return {
            name: shape.write(getattr(value, name))
            for name, shape in self.fields.items()
            if getattr(value, name) not in (None, "")
        }

    def schema(self) -> JsonSchema:
        properties = {name: or_nothing(shape.schema()) for name, shape in self.fields.items()}
        return {"type": "object", "properties": properties}


def or_nothing(schema: JsonSchema) -> JsonSchema:
    """An absent field may also be written as null or as an empty text."""
    return {"anyOf": [{"enum": [None, ""]}, schema]}


PREP: Final = Record(Prep, {"input_key": PathText(), "input_map": Named(PathText())})
POST: Final = Record(
    Post,
    {
        "output_key": Text(is_key=True),
        "output_map": Named(Text(), are_keys=True),
        "action_static": Text(),
        "action_key": NameOrPath(),
        "error_key": Text(is_key=True),
    },
)

FLOW_SETTINGS: Final[Mapping[str, tuple[Shape, str]]] = {
    "error_policy": (
        Word(ErrorPolicy),
        "The policy for a failed node without an `error` edge: follow `default`, or fail the task",
    ),
    "worker_wait_ms": (
        Count(DELAY_MS_MAX),
        "How long a call waits for a worker if `error_policy` is `fail`; 0: no wait",
    ),
}
"""The fields of a whole definition, with their descriptions. Subflows do not have them."""

# All but `kind`, which says what the others mean, and `subflow`, which holds a flow again.
NODE_FIELDS: Final[Mapping[str, Field]] = {
    "service": Field(
        Text(), "The service that a worker offers", frozenset({Kind.EXECUTOR, Kind.FOREACH})
    ),
    "function": Field(
        Text(), "The registered Python function", frozenset({Kind.LOCAL, Kind.FOREACH})
    ),
    "flow": Field(
        Text(), "The flow that runs as a child", frozenset({Kind.FLOW_REF, Kind.FOREACH})
    ),
    "version": Field(
        Count(VERSION_MAX),
        "The version of `flow`; without it, the newest published one",
        frozenset({Kind.FLOW_REF, Kind.FOREACH}),
    ),
    "params": Field(AnyObject(), "Parameters; they win over those of the run"),
    "prep": Field(PREP, "Where the input comes from"),
    "post": Field(POST, "Where the output goes, and which action follows"),
    "default_action": Field(Text(), "The action, if nothing else names one"),
    "max_retries": Field(Count(RETRY_COUNT_MAX), "How often a failure is tried again", _RETRYING),
    "wait_ms": Field(Count(DELAY_MS_MAX), "How long to wait before that", _RETRYING),
    "max_attempts": Field(
        Count(ATTEMPT_COUNT_MAX),
        "How many workers are called within one try; absent or 0: every live one",
        _REMOTE,
    ),
    "attempt_delay_ms": Field(Count(DELAY_MS_MAX), "How long to wait between them", _REMOTE),
    "weighted_by_load": Field(Flag(), "Whether the worker with the least load goes first", _REMOTE),
    "timeout_ms": Field(
        Count(DELAY_MS_MAX),
        "How long one try may take; 0: no limit of its own (a worker has 300 s at most)",
        _RETRYING,
    ),
    "on_error": Field(ErrorActions(), "The action after a failure: one, or one for each error"),
    "parallel_services": Field(
        Several(Text(), PARALLEL_COUNT_MAX), "A branch for each", frozenset({Kind.PARALLEL})
    ),
    "parallel_mode": Field(Word(Mode), "One after the other, or at once", _BRANCHING),
    "max_parallel": Field(
        Count(PARALLEL_COUNT_MAX), "How many branches are under way at once", _BRANCHING
    ),
    "failure_strategy": Field(Word(Strategy), "What a failed branch means", _BRANCHING),
    "choice_cases": Field(
        Several(CaseShape(), CASE_COUNT_MAX),
        "The first case that holds gives the action",
        frozenset({Kind.CHOICE}),
    ),
}
