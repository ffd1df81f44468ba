"""Holding a key's lease while its run is executed, and stopping by oneself when it is lost.

The runtime store only hints, so a lost lease is a reason to ask the database: while the claim
stands there, the lease is taken again and the work goes on. It stops when the claim is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from headway.core.errors import LeaseLost, RuntimeUnavailable
from headway.core.ids import Key
from headway.core.run.run import Claim
from headway.log import event_log
from headway.ports.runtime_store import RuntimeStore

T = TypeVar("T")
log = event_log(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease that was acquired a moment ago."""

    runtime: RuntimeStore
    key: Key
    claim: Claim
    ttl_s: float
    is_claim_current: Callable[[], Awaitable[bool]]
    """Asks the database, which decides."""

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` returns; LeaseLost, and it was cancelled, when the lease is gone for good."""
        try:
            async with asyncio.TaskGroup() as group:
                keeper = group.create_task(self._renew_repeatedly())
                done = await work()
                keeper.cancel()
        except* LeaseLost:
            raise LeaseLost(self.key, self.claim.run_id) from None
        return done

    async def _renew_repeatedly(self) -> None:
        """Renew every third of the lease; raise LeaseLost when nothing confirms it any more."""
        loop = asyncio.get_running_loop()
        trusted_until_s = loop.time() + self.ttl_s
        while True:
            await asyncio.sleep(self.ttl_s / 3)
            # Counted from when it is sent: a slow answer must not stretch the lease.
            sent_s = loop.time()
            is_ours = await self._renew(trusted_until_s)
            if is_ours:
                trusted_until_s = sent_s + self.ttl_s
            elif is_ours is False or loop.time() >= trusted_until_s:
                await self._reacquire()
                trusted_until_s = sent_s + self.ttl_s

    async def _renew(self, trusted_until_s: float) -> bool | None:
        """None: nobody said so. One that fails or hangs is lost once the deadline has passed."""
        try:
            async with asyncio.timeout_at(trusted_until_s):
                return await self.runtime.renew_lease(self.key, self.claim)
        except (RuntimeUnavailable, TimeoutError):
            return None

    async def _reacquire(self) -> None:
        fields = {"key": self.key, "run_id": self.claim.run_id}
        if not await self.is_claim_current():
            raise LeaseLost(self.key, self.claim.run_id)
        log.warning("runtime_lease_lost", extra=fields)
        try:
            async with asyncio.timeout(self.ttl_s / 3):
                holder = await self.runtime.acquire_lease(self.key, self.claim)
        except (RuntimeUnavailable, TimeoutError):
            return  # The claim stands without it, and it is asked for again.
        if holder is not None:
            log.warning("runtime_lease_held_by_another", extra=fields | {"holder": holder})
