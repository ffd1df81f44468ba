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
    """Wait at most `seconds` for `event`, and return whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def retry_until_available(action: Callable[[], Awaitable[T]]) -> T:
    """Repeat `action` until the database is available, and return its result.

    There is no time limit; cancel the call to stop the repetition. Raise StoreClosed if the store
    is closed. `action` must be safe to repeat: an earlier attempt may have been committed although
    its answer was lost.
    """
    while True:  # Until the action succeeds or this task is canceled.
        try:
            return await action()
        except StoreClosed:
            raise
        except InfrastructureError as error:
            log.warning("database_unavailable", extra={"reason": str(error)})
            await asyncio.sleep(RETRY_S)
