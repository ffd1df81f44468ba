"""What a flow run wants done. The driver does it after the commit, and tells how it went.

A command is given again, under the same `call_id`, when a run is loaded after a crash: whoever is
called may use the id to notice. That a run waits, or is over, is no command: its state says so.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headway.core.ids import Instant


class CallService(NamedTuple):
    """Ask a worker. Which one is the driver's choice, among those not excluded."""

    call_id: str
    service: str
    input: Any
    params: Mapping[str, Any]
    try_no: int
    attempt: int
    """Which worker this is within the try, from 1."""
    excluded: tuple[str, ...]
    """Ids of the workers that have failed within this try."""
    prefers_least_load: bool
    """Whether the worker with the least load goes first."""
    deadline_at: Instant | None
    """When the engine gives it up by itself; for the driver to pass on."""
    may_try_another_worker: bool = True
    """Whether another worker is asked within this try if the one that is chosen fails."""


class CallFunction(NamedTuple):
    call_id: str
    function: str
    input: Any
    params: Mapping[str, Any]
    try_no: int
    deadline_at: Instant | None


class CallFlow(NamedTuple):
    """Start a run of another flow; `call_id` is its idempotency key within this run."""

    call_id: str
    flow: str
    version: int
    params: Mapping[str, Any]


class CancelCall(NamedTuple):
    """Nobody waits for it any more: tell the worker, stop the function, cancel the child.

    After a crash it may be for a call that was never made.
    """

    call_id: str
    is_child: bool = False
    """Whether it is a child run, which goes on wherever it is until somebody cancels it."""


Effect = CallService | CallFunction | CallFlow | CancelCall
