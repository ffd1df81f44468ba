"""Work that blocks, done in a thread."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What `function` returns. Also when this is cancelled, it is over when this ends."""
    work = asyncio.get_running_loop().run_in_executor(None, partial(function, *arguments, **named))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
