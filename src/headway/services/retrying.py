"""Retry through database outages, and wait on events with a timeout."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from headway.core.errors import InfrastructureError, StoreClosed
from headway.log import event_log

RETRY_S: Final = 0.5

T = TypeVar("T")

log = event_log(__name__)


async def wait_until_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for `event`, and return whether it was set in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def retry_until_available(action: Callable[[], Awaitable[T]]) -> T:
    """Repeat `action` until the database is available, and return its result.

    It waits without a limit; cancel it to stop. Raise StoreClosed if the store is closed. `action`
    must be safe to repeat: its first attempt may have been committed although its answer was lost.
    """
    while True:  # Until the action succeeds or this task is cancelled.
        try:
            return await action()
        except StoreClosed:
            raise
        except InfrastructureError as error:
            log.warning("database_unavailable", extra={"reason": str(error)})
            await asyncio.sleep(RETRY_S)
