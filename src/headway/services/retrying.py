"""Waiting: for a database that is away, and for news, which may not come."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from headway.core.errors import InfrastructureError, StoreClosed
from headway.log import event_log

RETRY_S: Final = 0.5

T = TypeVar("T")

log = event_log(__name__)


async def wait_until_set(event: asyncio.Event, seconds: float) -> bool:
    """Whether it was set in time. Who relies on it looks for itself when it was not."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def retry_until_available(action: Callable[[], Awaitable[T]]) -> T:
    """The answer, however long the database is away. To be ended, it is cancelled.

    Only for what may be done twice: whoever was too late the second time is told so.
    """
    while True:  # Until there is an answer, or the execution is ended from outside.
        try:
            return await action()
        except StoreClosed:
            raise
        except InfrastructureError as error:
            log.warning("database_awaited", extra={"reason": str(error)})
            await asyncio.sleep(RETRY_S)
