"""Hints between instances: which claim works on a key, and which runs have changed.

The database decides, and stores everything that was accepted. The hint bus only makes other
instances react sooner. Any hint may be lost at any time, which costs latency only. So services
react to a hint by reading the database.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from headway.core.ids import Key, RunId
from headway.core.run.run import Claim


class Hint(StrEnum):
    """The reason to read a run now."""

    CANCEL = "cancel"
    MESSAGE = "message"
    ANSWER = "answer"
    RESYNC = "resync"
    """Hints may have been lost: read everything."""


class HintBus(Protocol):
    """One bus for all instances. Any call may raise RuntimeUnavailable, within seconds.

    A call that raised RuntimeUnavailable may have taken effect. Every call can be repeated.
    """

    async def acquire_lease(self, key: Key, claim: Claim) -> RunId | None:
        """Acquire the key's lease for the claim. Return None, or the run that holds the lease.

        None means that this claim holds the lease now. If it already held the lease, the full
        lifetime of the lease starts again.
        """
        ...

    async def renew_lease(self, key: Key, claim: Claim) -> bool:
        """Extend the lease. Return False if the claim does not hold the lease."""
        ...

    async def release_lease(self, key: Key, claim: Claim) -> bool:
        """Release the lease. Return False if the claim does not hold the lease."""
        ...

    async def publish_hint(self, run_id: RunId, hint: Hint) -> None:
        """Send a hint to all watchers of the run."""
        ...

    async def watch(self, run_id: RunId, listener: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `listener` with each hint for the run. Return a function to remove the listener.

        The listener is called on the event loop and must not block. Hints can be lost; after a
        possible loss the listener receives `Hint.RESYNC`.
        """
        ...
