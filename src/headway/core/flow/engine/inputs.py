"""The inputs of a flow run. The driver passes them to `step` one at a time."""

from typing import Any, NamedTuple

from headway.core.document import check_name
from headway.core.errors import InvalidInput
from headway.core.flow.definition.definition import key_problem


class Woken(NamedTuple):
    """Continue the run: it is new, was loaded, or its `wake_at` has been reached."""


class WorkerRef(NamedTuple):
    id: str
    url: str


class Answered(NamedTuple):
    """A call has a result. The result of a child run is the child's shared state."""

    call_id: str
    result: Any
    worker: WorkerRef | None = None


class Failed(NamedTuple):
    """A call failed: the callee reported an error, cannot be reached, or does not exist."""

    call_id: str
    error: str
    worker: WorkerRef | None = None
    """The worker that failed. None if no worker was called, for example because none is alive."""
    is_final: bool = False
    """True if a retry cannot succeed."""
    is_last_worker: bool = False
    """True if no other live worker offers the service."""


class CalleeUnavailable(NamedTuple):
    """The call was not accepted and nothing was done, so it may be made again.

    This process has not registered the function, or no worker for the service could be reached.
    """

    call_id: str
    error: str
    """The error to report if the call is not made again."""
    worker: WorkerRef | None = None
    """The registered worker that was called last and could not be reached, or None."""


class ServiceOffered(NamedTuple):
    """A live worker offers a service for which calls wait. The calls are made now."""

    service: str


class Signalled(NamedTuple):
    key: str
    value: Any


class Aborted(NamedTuple):
    """The driver cannot continue the run, for example because its state is too large."""

    error: str


CallOutcome = Answered | Failed | CalleeUnavailable
"""The outcome of a call."""
FlowInput = Woken | CallOutcome | ServiceOffered | Signalled | Aborted


def check_signal_key(key: str) -> str:
    """Return `key` trimmed. Raise InvalidInput if a signal must not set it."""
    trimmed = check_name(key, field="key")
    problem = key_problem(trimmed)
    if problem is not None:
        raise InvalidInput("key", problem)
    return trimmed
