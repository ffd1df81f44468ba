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
SILENCE_S_MAX: Final = 60.0
AGAIN_S: Final = 1.0


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
        self._is_asked = self._is_over = False
        self._due_at_s = time.monotonic() + ttl_s / 3
        self._tick()

    def end(self) -> None:
        self._ticking.cancel()
        self._is_over = True

    def hasten(self) -> None:
        self._due_at_s = time.monotonic()

    def _tick(self) -> None:
        self._ticked_at_s = time.monotonic()
        self._ticking = self._loop.call_later(TICK_S, self._tick)

    # The writer's thread.

    def due_in_s(self) -> float:
        if self._is_asked or time.monotonic() - self._ticked_at_s > SILENCE_S_MAX:
            return AGAIN_S
        return max(0.0, self._due_at_s - time.monotonic())

    def ask(self) -> RenewInstance:
        """Until it is answered, the lease is not due again."""
        self._is_asked = True
        self._asked_at_s = time.monotonic()
        return self._command

    def answered(self, expires_at: Instant | None, error: BaseException | None) -> None:
        self._is_asked = False
        if self._is_over:
            return
        if error is None:
            self._due_at_s = time.monotonic() + self._ttl_s / 3
            self._on_renewed(None if expires_at is None else self._asked_at_s + self._ttl_s)
        else:
            self._due_at_s = time.monotonic() + min(AGAIN_S, self._ttl_s / 3)
