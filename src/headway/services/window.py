"""The window of a run: when its loop listens, and when it does not.

It lives inside the claim: whoever loses the run has no window either, and whoever claims it next
begins without.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headway.core.command.report import SetWindow
from headway.core.duration import check_seconds
from headway.core.run.window import Window
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.services.execution import Execution
from headway.services.patience import persistently

COMPACTION_TIMEOUT_S: Final = 120.0


@asynccontextmanager
async def listening(execution: Execution, store: Store) -> AsyncIterator[None]:
    await _put(Window.STREAMING, execution, store)
    try:
        yield
    finally:
        await _put(Window.CLOSED, execution, store)


@asynccontextmanager
async def compacting(
    execution: Execution, store: Store, clock: Clock, *, timeout_s: float
) -> AsyncIterator[None]:
    check_seconds(timeout_s, place="timeout_s")
    await _put(Window.COMPACTING, execution, store)
    try:
        async with clock.timeout(timeout_s):
            yield
    finally:
        await _put(Window.STREAMING, execution, store)


async def _put(window: Window, execution: Execution, store: Store) -> None:
    """Nothing when the run is to end: then it takes no messages anyway."""
    if execution.ending is None:
        command = SetWindow(execution.claim, window)
        await persistently(lambda: store.apply(command))
