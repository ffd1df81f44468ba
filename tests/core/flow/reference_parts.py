"""What `reference.py` speaks of."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from tests.core.flow.driver import Reply
from tests.core.flow.reference_values import Json

World = Callable[[str, str, Any, int, int], Reply]
"""Kind of callee, its name, its input, which try, which worker."""
Signals = list[tuple[int, str, Any]]
"""When, key, value."""
FOR_EVER = 10**12


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


class Place(NamedTuple):
    """A node that has been entered."""

    node: Json
    merged: Json
    shared: Json
    given: Any
    path: tuple[str, ...]
    entered: int
    missing: dict[str, int]
    """When a call first found no worker for a service."""

    @property
    def post(self) -> Json:
        return self.node.get("post") or {}

    @property
    def strategy(self) -> str:
        return str(self.node.get("failure_strategy") or "fail_fast")


class Event(NamedTuple):
    """What a branch waits for: the end of a call, its time limit, or that it is to be called."""

    at: int
    is_alarm: bool
    order: int
    call: "Call | None" = None


class Call(NamedTuple):
    """A call that is under way."""

    number: int
    """Who was called first ends first."""
    due_since: int
    """When a further try was to be made, or 0: after a crash the first tries are called first."""
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


class Tried(NamedTuple):
    try_no: int
    started: int
    output: Any = None
    error: str = ""
    is_final: bool = False
    worker: str | None = None


class Over(Exception):
    """The whole run is over, wherever it is."""

    def __init__(self, error: str) -> None:
        self.error = error


class OutOfTime(Exception):
    def __init__(self, depth: int) -> None:
        self.depth = depth


class Lost(Exception):
    """This try of a node has failed."""

    def __init__(self, error: str, *, is_final: bool = False, path: tuple[str, ...] = ()) -> None:
        self.error = error
        self.is_final = is_final
        self.path = path


class Stuck(Exception):
    """Nothing is left that could happen."""


class Huge(Exception):
    """Going round, it has put its state into itself so often that it would not fit anywhere."""


class Tie(Exception):
    """An end or a signal comes at the instant of an alarm: a crash in between lets that go first.

    Who dies after every commit cannot tell which was meant to be first.
    """


Tries = Generator[Event, None, Tried]


class Branches:
    """Those of one node that are under way."""

    def __init__(self, inputs: list[Any]) -> None:
        self.inputs = inputs
        self.tries: dict[int, Tries] = {}
        self.waiting: dict[int, Event] = {}
        self.is_late = False
        """Whether what happened last is that a time is over."""
        self.idle: dict[int, tuple[int, int]] = {}
        """Those that wait to be called again: which try, and when it began, or -1."""
        self.awaited: dict[int, str] = {}
        """The services that those without a worker wait for."""
        self.done: dict[int, Any] = {}
        self.errors: dict[int, str] = {}
        self.is_stopped = False
