"""Errors can be copied between threads and pickled between processes."""

import pickle
from copy import copy

import pytest

from headway.core.errors import (
    ApprovalNotOpen,
    ChildRefused,
    DatabaseBehind,
    DatabaseFileLost,
    DatabaseUnavailable,
    Error,
    FlowNotFound,
    ForeignDatabase,
    IdempotencyConflict,
    InboxOverflow,
    InterruptNotOpen,
    InvalidFlow,
    InvalidInput,
    KeyBusy,
    KeyLocked,
    LaneFull,
    LeaseLost,
    MessageRefused,
    OutcomeUnknown,
    OutputExists,
    RevisionConflict,
    RunFailed,
    RunNotActive,
    RunNotFound,
    RuntimeUnavailable,
    SchemaMismatch,
    StoreClosed,
    StoreFailed,
    StoreOverloaded,
    TooLarge,
)
from headway.core.ids import Key, LaneName, RunId
from headway.core.run.status import RunStatus

ERRORS: list[Error] = [
    InvalidInput("params", "must be an object"),
    TooLarge("params", "is too long"),
    InvalidFlow([("nodes.a.kind", "must be one of: executor"), ("start", "is missing")]),
    KeyBusy(Key("k"), RunId("r")),
    KeyLocked(Key("k"), RunId("r")),
    IdempotencyConflict("once", RunId("r")),
    OutputExists(Key("k"), 2, "photos/1.jpg"),
    RevisionConflict("lane 'main'", 3),
    LaneFull(LaneName("main"), 5),
    RunNotFound(RunId("r")),
    FlowNotFound("orders", 2),
    ApprovalNotOpen(RunId("r"), is_answered=True),
    SchemaMismatch("the database is newer"),
    SchemaMismatch("it has no schema", remedy="headway db upgrade"),
    RuntimeUnavailable("127.0.0.1:6379", "it did not answer"),
    LeaseLost(Key("k"), RunId("r")),
    ForeignDatabase("headway@db", "the table events has the columns id, title"),
    DatabaseBehind({"a:1": "lacks commits"}),
    DatabaseFileLost("deleted"),
    DatabaseUnavailable({"a:1": "refused", "b:2": "is read-only"}),
    OutcomeUnknown("connection reset"),
    InboxOverflow(RunId("r"), 9),
    RunNotActive(RunId("r")),
    MessageRefused(RunId("r"), "compacting"),
    InterruptNotOpen(RunId("r"), "1.1", is_answered=False, open_call_ids=("2.1",)),
    ChildRefused(RunId("r"), "it has too many"),
    StoreFailed("disk full"),
    StoreOverloaded(9),
    StoreClosed(),
    RunFailed(RunId("r"), RunStatus.FAILED, {"code": "error", "message": "no"}),
]


def leaf_classes(kind: type[Error]) -> set[type[Error]]:
    below = kind.__subclasses__()
    return set().union(*map(leaf_classes, below)) if below else {kind}


def test_every_error_class_has_a_test_case() -> None:
    ours = {kind for kind in leaf_classes(Error) if kind.__module__ == Error.__module__}
    assert ours <= {type(error) for error in ERRORS}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_error_is_equal_after_copying_and_pickling(error: Error) -> None:
    for again in (copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        ("is missing", "params.url is missing"),
        ("must be text", "params.url must be text"),
        ("'x' is taken", "params.url 'x' is taken"),
        (
            "names that begin with _ are reserved",
            "params.url: names that begin with _ are reserved",
        ),
        ("island", "params.url: island"),
    ],
)
def test_invalid_input_error_is_one_sentence(problem: str, sentence: str) -> None:
    error = InvalidInput("params.url", problem)
    assert str(error) == sentence
    assert error.errors == (("params.url", problem),)
