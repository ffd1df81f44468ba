"""The slot of one execution: held while its job works, given back while it waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from headway.core.command.run.wait import ReleaseSlot, RequestSlot, SlotResult
from headway.ports.store import Store
from headway.services.context.execution import Execution
from headway.services.retrying import retry_until_available


class Slot:
    """A job may wait for several things at once: the first wait gives the slot back, the last one
    gets it again. Whatever goes on in between does so without: a job that held a slot while it
    waits for a child could keep the child from starting."""

    def __init__(
        self, execution: Execution, store: Store, *, before_wait: Callable[[], Awaitable[None]]
    ) -> None:
        self._execution = execution
        self._store = store
        self._before_wait = before_wait
        self._has_slot = True
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def open_wait(self) -> AsyncIterator[None]:
        """To be left with a slot, ahead of runs that are only queued, unless the run is to end."""
        self._execution.begin_wait()
        try:
            await self._update_slot()
            yield
        finally:  # Also when the job itself has set a limit to the wait.
            self._execution.wait_count -= 1
            if self._execution.ending is None:
                await self._update_slot()

    async def _update_slot(self) -> None:
        """Have a slot if nobody waits, and none if somebody does."""
        async with self._lock:
            is_waiting = self._execution.wait_count > 0
            if is_waiting and self._has_slot:
                await self._before_wait()
                # If this is broken off, whoever wants a slot again is told that it has one.
                self._has_slot = False
                given = ReleaseSlot(self._execution.claim)
                self._has_slot = not await retry_until_available(lambda: self._store.apply(given))
                self._execution.has_slot = self._has_slot
            elif not is_waiting and not self._has_slot:
                # Whatever becomes of this, the next wait begins by standing in no line.
                self._has_slot = True
                slot = self._execution.expect_slot()
                wanted = RequestSlot(self._execution.claim)
                answer = await retry_until_available(lambda: self._store.apply(wanted))
                if answer is not SlotResult.HELD:
                    # A refusal is no reason to go on without: it is to end, and is told so soon.
                    await slot
                self._execution.has_slot = True
