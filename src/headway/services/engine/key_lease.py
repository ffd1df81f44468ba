"""Hold the lease of a key on the hint bus (Redis) while its run is executed.

This lease is only a hint for other instances; the claim in the database decides which instance
executes a run. The holder renews the lease every third of its time to live. If a renewal is
refused, or none succeeds within the trust window (`headway.core.lease`), the holder queries the
database. If the claim is still current there, the holder acquires the lease again and the work
continues. If the claim is gone, the work is canceled and LeaseLost is raised. An outage of the hint
bus alone therefore never ends an execution.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from headway.core.errors import LeaseLost, RuntimeUnavailable
from headway.core.ids import Key
from headway.core.lease import trusted_until_s
from headway.core.run.run import Claim
from headway.log import event_log
from headway.ports.hint_bus import HintBus

T = TypeVar("T")
log = event_log(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease of a key that the caller has just acquired; `run` renews it during the work."""

    hint_bus: HintBus
    key: Key
    claim: Claim
    ttl_s: float
    is_claim_current: Callable[[], Awaitable[bool]]
    """Returns whether the claim is current in the database, which is authoritative."""

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work` while renewing the lease, and return its result.

        Cancel `work` and raise LeaseLost if the claim is gone.
        """
        try:
            async with asyncio.TaskGroup() as group:
                renewals = group.create_task(self._renew_repeatedly())
                result = await work()
                renewals.cancel()
        except* LeaseLost:
            raise LeaseLost(self.key, self.claim.run_id) from None
        return result

    async def _renew_repeatedly(self) -> None:
        """Renew the lease every third of its time to live. Raise LeaseLost if the claim is gone."""
        loop = asyncio.get_running_loop()
        deadline_s = trusted_until_s(renewal_sent_s=loop.time(), ttl_s=self.ttl_s)
        while True:  # Until it is canceled, or the lease is lost.
            await asyncio.sleep(self.ttl_s / 3)
            sent_s = loop.time()
            is_renewed = await self._renew(deadline_s)
            if is_renewed is None and loop.time() < deadline_s:
                continue  # No answer yet, but the last renewal is still trusted.
            if not is_renewed:
                await self._reacquire()
            deadline_s = trusted_until_s(renewal_sent_s=sent_s, ttl_s=self.ttl_s)

    async def _renew(self, deadline_s: float) -> bool | None:
        """Return whether the bus renewed the lease, or None if it did not answer in time."""
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self.hint_bus.renew_lease(self.key, self.claim)
        except (RuntimeUnavailable, TimeoutError):
            return None

    async def _reacquire(self) -> None:
        fields = {"key": self.key, "run_id": self.claim.run_id}
        if not await self.is_claim_current():
            raise LeaseLost(self.key, self.claim.run_id)
        log.warning("runtime_lease_lost", extra=fields)
        try:
            async with asyncio.timeout(self.ttl_s / 3):
                holder = await self.hint_bus.acquire_lease(self.key, self.claim)
        except (RuntimeUnavailable, TimeoutError):
            return  # The claim is valid without the lease, and the next round tries again.
        if holder is not None:
            log.warning("runtime_lease_held_by_another", extra=fields | {"holder": holder})
