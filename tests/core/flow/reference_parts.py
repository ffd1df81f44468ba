"""Values, exceptions and bookkeeping used by `reference.py`."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from tests.core.flow.driver import Reply
from tests.core.flow.reference_values import Json

CalleeModel = Callable[[str, str, Any, int, int], Reply]
"""Answers a call, by kind of callee, its name, its input, the try and the attempt."""
Signals = list[tuple[int, str, Any]]
"""Signals as (time in ms, key, value)."""
FOREVER_MS = 10**12


class Row(NamedTuple):
    path: tuple[str, ...]
    branch: int | None
    attempt: int
    status: str
    input: Any
    output: Any
    error: str
    action: str
    started: int
    finished: int
    worker: str | None
    is_settled: bool


class NodeVisit(NamedTuple):
    """A node that was entered, with the values that it works on."""

    node: Json
    merged: Json
    shared: Json
    input: Any
    path: tuple[str, ...]
    entered: int
    missing: dict[str, int]
    """The time at which a call first found no worker, by service."""

    @property
    def post(self) -> Json:
        return self.node.get("post") or {}

    @property
    def strategy(self) -> str:
        return str(self.node.get("failure_strategy") or "fail_fast")


class Event(NamedTuple):
    """The next event of a branch: the end of a call, its time limit, or the time to call again."""

    at: int
    is_alarm: bool
    order: int
    call: "Call | None" = None


class Call(NamedTuple):
    """A call in flight."""

    number: int
    """Calls that end at the same instant end in the order of their numbers."""
    due_since: int
    """When a further try was due, or 0 for a first try: after a crash, first tries go first."""
    branch: int
    ends_at: int
    due_at: int
    after_ms: int
    timeout_ms: int
    is_child: bool

    def event(self) -> Event:
        is_late = self.ends_at > self.due_at
        at = self.due_at if is_late else self.ends_at
        return Event(at, is_late, self.branch if is_late else self.number, self)


class TryOutcome(NamedTuple):
    try_no: int
    started: int
    output: Any = None
    error: str = ""
    is_final: bool = False
    worker: str | None = None


class RunEnded(Exception):
    """The whole run has ended, at any depth of subflows."""

    def __init__(self, error: str) -> None:
        self.error = error


class SubflowTimeout(Exception):
    def __init__(self, depth: int) -> None:
        self.depth = depth


class TryFailed(Exception):
    """A try of a node has failed."""

    def __init__(self, error: str, *, is_final: bool = False, path: tuple[str, ...] = ()) -> None:
        self.error = error
        self.is_final = is_final
        self.path = path


class NothingPending(Exception):
    """No event is pending, so the run waits forever."""


class OutputTooLarge(Exception):
    """A loop has nested the run's state into itself until it exceeds the limit of this model."""


class AmbiguousOrder(Exception):
    """An end or a signal comes at the same instant as an alarm.

    A crash in between lets the alarm go first. A process that crashes after every commit cannot
    decide which of the two was first.
    """


Tries = Generator[Event, None, TryOutcome]


class Branches:
    """The branches of one node that have not ended."""

    def __init__(self, inputs: list[Any]) -> None:
        self.inputs = inputs
        self.tries: dict[int, Tries] = {}
        self.waiting: dict[int, Event] = {}
        self.is_late = False
        """True if the last event was an alarm."""
        self.idle: dict[int, tuple[int, int]] = {}
        """Branches that wait to be called again: the try, and when it began or -1."""
        self.awaited: dict[int, str] = {}
        """The service that each branch without a worker waits for."""
        self.done: dict[int, Any] = {}
        self.errors: dict[int, str] = {}
        self.is_stopped = False
