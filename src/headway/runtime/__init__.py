"""The runtime store: short-lived state of runs that any process can reach quickly.

The store has leases of keys, questions to people, cancel flags, messages for a running engine, and
hints. It is stored in the memory of one process, or in Redis for several processes:

    async with open_runtime_store("redis://localhost:6379/0") as store:
        claim = Claim(RunId("run-1"), token)
        holder = await store.acquire_lease(Key("report"), claim)
        if holder is None:
            answer = await store.wait_for_interrupt(claim.run_id, "delete-files")

The store keeps nothing permanently and needs no database. A program that must not lose an accepted
message or answer writes it to a database first, and uses the runtime store to react sooner.
"""

from headway.core.document import Document
from headway.core.errors import ConfigurationError, RuntimeUnavailable, StoreClosed
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.ports.hint_bus import Hint
from headway.runtime.open_store import open_runtime_store
from headway.runtime.runtime_store import (
    CANCELED_ANSWER,
    SHUTDOWN_ANSWER,
    InjectAnswer,
    Phase,
    ResolveAnswer,
    RuntimeLimits,
    RuntimeStore,
)

__all__ = [
    "CANCELED_ANSWER",
    "SHUTDOWN_ANSWER",
    "Claim",
    "ConfigurationError",
    "Document",
    "Hint",
    "InjectAnswer",
    "Key",
    "Phase",
    "ResolveAnswer",
    "RunId",
    "RuntimeLimits",
    "RuntimeStore",
    "RuntimeUnavailable",
    "StoreClosed",
    "open_runtime_store",
]
