"""The lease of the instance that a writer serves, renewed from the writer's own thread.

A job that blocks the event loop for half a minute must not cost its instance the lease; but one
that blocks it for good must: so the loop has to tick, and is given a minute for it.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from headway.core.command.admin.instance import RenewInstance
from headway.core.ids import InstanceId, Instant

TICK_S: Final = 1.0
BLOCKED_LOOP_S_MAX: Final = 60.0
RETRY_DELAY_S: Final = 1.0


class Lease:
    """Made and ended in the event loop; asked and answered in the writer's thread."""

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

    # The writer's thread.

    def due_in_s(self) -> float:
        if self._is_renewing or time.monotonic() - self._last_tick_at_s > BLOCKED_LOOP_S_MAX:
            return RETRY_DELAY_S
        return max(0.0, self._due_at_s - time.monotonic())

    def start_renewal(self) -> RenewInstance:
        """Until it is answered, the lease is not due again."""
        self._is_renewing = True
        self._renewal_sent_at_s = time.monotonic()
        return self._command

    def finish_renewal(self, expires_at: Instant | None, error: BaseException | None) -> None:
        self._is_renewing = False
        if self._is_ended:
            return
        if error is None:
            self._due_at_s = time.monotonic() + self._ttl_s / 3
            self._on_renewed(None if expires_at is None else self._renewal_sent_at_s + self._ttl_s)
        else:
            self._due_at_s = time.monotonic() + min(RETRY_DELAY_S, self._ttl_s / 3)
