"""The lease of the writer's instance, renewed in the writer's thread.

A job that blocks the event loop for half a minute must not lose the lease of its instance, but a
job that blocks it permanently must. So the event loop records a tick every second, and the writer
stops renewing once the last tick is a minute old.

See docs/internals/writer.md.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from headway.core.command.admin.instance import RenewInstance
from headway.core.ids import InstanceId, Instant
from headway.core.lease import trusted_until_s

TICK_S: Final = 1.0
BLOCKED_LOOP_S_MAX: Final = 60.0
RETRY_DELAY_S: Final = 1.0


class Lease:
    """A lease that the event loop starts and ends, and the writer's thread renews."""

    def __init__(
        self,
        instance_id: InstanceId,
        *,
        ttl_s: float,
        on_renewed: Callable[[float | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._ttl_s = ttl_s
        self._on_renewed = on_renewed
        self._loop = loop
        self._command = RenewInstance(instance_id=instance_id, ttl_s=ttl_s)
        self._is_renewing = self._is_ended = False
        self._due_at_s = time.monotonic() + ttl_s / 3
        self._tick()

    def end(self) -> None:
        self._tick_timer.cancel()
        self._is_ended = True

    def renew_now(self) -> None:
        self._due_at_s = time.monotonic()

    def _tick(self) -> None:
        self._last_tick_at_s = time.monotonic()
        self._tick_timer = self._loop.call_later(TICK_S, self._tick)

    # The methods below run in the writer's thread.

    def due_in_s(self) -> float:
        """Return the seconds until a renewal may be due, or 0 if one is due now.

        While a renewal is in flight or the event loop is blocked, return the delay until the next
        check.
        """
        if self._is_renewing or time.monotonic() - self._last_tick_at_s > BLOCKED_LOOP_S_MAX:
            return RETRY_DELAY_S
        return max(0.0, self._due_at_s - time.monotonic())

    def start_renewal(self) -> RenewInstance:
        """Return the command that renews the lease.

        No other renewal is due until `finish_renewal` is called.
        """
        self._is_renewing = True
        self._renewal_sent_at_s = time.monotonic()
        return self._command

    def finish_renewal(self, expires_at: Instant | None, error: BaseException | None) -> None:
        """Record the answer to a renewal. `expires_at` is None if the lease is lost.

        The trust window begins when the renewal was sent, so that a slow answer cannot extend the
        lease. After an error the renewal is repeated within a second.
        """
        self._is_renewing = False
        if self._is_ended:
            return
        if error is None:
            self._due_at_s = time.monotonic() + self._ttl_s / 3
            is_renewed = expires_at is not None
            sent_s, ttl_s = self._renewal_sent_at_s, self._ttl_s
            self._on_renewed(
                trusted_until_s(renewal_sent_s=sent_s, ttl_s=ttl_s) if is_renewed else None
            )
        else:
            self._due_at_s = time.monotonic() + min(RETRY_DELAY_S, self._ttl_s / 3)
