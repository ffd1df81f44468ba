"""Run blocking functions in threads."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """Runs blocking functions in threads, and tracks whether any call is in flight."""

    def __init__(self) -> None:
        self._running_count = 0

    @property
    def is_idle(self) -> bool:
        return self._running_count == 0

    async def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call `function` in a thread with `run_in_thread`, and return its result."""
        self._running_count += 1
        try:
            return await run_in_thread(function, *arguments, **named)
        finally:
            self._running_count -= 1


async def run_in_thread(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call `function` in a thread and return its result.

    If this call is canceled, it first waits until the function has returned, so that the function
    never outlives the call.
    """
    work = asyncio.get_running_loop().run_in_executor(None, partial(function, *arguments, **named))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
