"""What can happen to a flow run. The driver tells it, one thing at a time."""

from typing import Any, NamedTuple

from headway.core.document import check_name
from headway.core.errors import InvalidInput
from headway.core.flow.definition.definition import key_problem


class Woken(NamedTuple):
    """It is new, or was loaded, or its `wake_at` has come: it goes on from where it is."""


class WorkerRef(NamedTuple):
    id: str
    url: str


class Answered(NamedTuple):
    """A call has its result. For a child run that is the child's shared state."""

    call_id: str
    result: Any
    worker: WorkerRef | None = None


class Failed(NamedTuple):
    """A call did not work out: the callee says so, cannot be reached, or does not exist."""

    call_id: str
    error: str
    worker: WorkerRef | None = None
    """None when nobody was asked, such as for want of a worker."""
    is_final: bool = False
    """Whether to try again is of no use."""
    is_last_worker: bool = False
    """Whether no other live worker offers the service."""


class CalleeUnavailable(NamedTuple):
    """The call was not taken, and nothing was done: it may be made again.

    This program has not registered the function, or no worker for the service could be reached.
    """

    call_id: str
    error: str
    """What is missing, should there be no next time."""
    worker: WorkerRef | None = None
    """The last worker that is registered for the service and could not be reached, if any."""


class ServiceOffered(NamedTuple):
    """A live worker offers a service for which calls wait: make them now."""

    service: str


class Signalled(NamedTuple):
    key: str
    value: Any


class Aborted(NamedTuple):
    """The driver cannot go on with it, such as because its state has become too large."""

    error: str


CallOutcome = Answered | Failed | CalleeUnavailable
"""What becomes of a call."""
FlowInput = Woken | CallOutcome | ServiceOffered | Signalled | Aborted


def check_signal_key(key: str) -> str:
    """`key` trimmed, if a signal may set it; else InvalidInput."""
    trimmed = check_name(key, field="key")
    problem = key_problem(trimmed)
    if problem is not None:
        raise InvalidInput("key", problem)
    return trimmed
