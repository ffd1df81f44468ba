"""The effects that a step requests. The driver performs them after the commit.

The driver reports each outcome as an input. After a crash, the run is loaded and an effect may be
requested again under the same `call_id`, so that the callee can detect the repetition. Waiting and
ending are not effects: they are recorded in the state.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headway.core.ids import Instant


class CallService(NamedTuple):
    """Call a worker. The driver chooses one that is not in `excluded`."""

    call_id: str
    service: str
    input: Any
    params: Mapping[str, Any]
    try_no: int
    attempt: int
    """The number of the attempt within the try, from 1. Each attempt calls another worker."""
    excluded: tuple[str, ...]
    """Ids of the workers that have failed within this try."""
    prefers_least_load: bool
    """True if the driver must choose the worker with the least load."""
    deadline_at: Instant | None
    """When the engine abandons the call. The driver limits the request accordingly."""
    may_try_another_worker: bool = True
    """True if another worker is called within this try when the chosen worker fails."""


class CallFunction(NamedTuple):
    call_id: str
    function: str
    input: Any
    params: Mapping[str, Any]
    try_no: int
    deadline_at: Instant | None


class CallFlow(NamedTuple):
    """Start a run of another flow. `call_id` is its idempotency key within this run."""

    call_id: str
    flow: str
    version: int
    params: Mapping[str, Any]


class CancelCall(NamedTuple):
    """Cancel a call whose outcome is no longer needed: notify the worker, function or child.

    After a crash the effect may name a call that was never made.
    """

    call_id: str
    is_child: bool = False
    """True if the call started a child run, which continues in any process until canceled."""


Effect = CallService | CallFunction | CallFlow | CancelCall
