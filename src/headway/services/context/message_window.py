"""The message window of an execution: the time in which its job accepts messages.

The window belongs to the claim: an execution that loses its claim also loses its window, and the
next execution starts without a window. A job opens the window with `ctx.listening()`, or by reading
its messages.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headway.core.command.run.report import SetWindow
from headway.core.duration import check_seconds
from headway.core.run.window import Window
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.services.context.execution import Execution
from headway.services.retrying import retry_until_available


class MessageWindow:
    """Opens, closes and restores the window of one execution."""

    def __init__(self, execution: Execution, store: Store, clock: Clock) -> None:
        self._execution = execution
        self._store = store
        self._clock = clock
        self._window = Window.NONE

    def note_opened_by_reading(self) -> None:
        """Record that reading messages has opened the window, unless the job has set it itself."""
        if self._window is Window.NONE:
            self._window = Window.STREAMING

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        await self._set(Window.STREAMING)
        try:
            yield
        finally:
            await self._set(Window.CLOSED)

    @asynccontextmanager
    async def compacting(self, *, timeout_s: float) -> AsyncIterator[None]:
        check_seconds(timeout_s, field="timeout_s")
        before = self._window
        await self._set(Window.COMPACTING)
        try:
            async with self._clock.timeout(timeout_s):
                yield
        finally:
            await self._set(before)

    async def _set(self, window: Window) -> None:
        """Store the window, unless the run must end: such a run accepts no messages."""
        self._window = window
        if self._execution.ending is None:
            command = SetWindow(self._execution.claim, window)
            await retry_until_available(lambda: self._store.apply(command))
