"""The slot of one execution: held while its job works, released while it waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from headway.core.command.run.wait import ReleaseSlot, RequestSlot, SlotResult
from headway.ports.store import Store
from headway.services.context.execution import Execution
from headway.services.retrying import retry_until_available


class Slot:
    """Releases a job's slot when its first wait begins, and gets one when its last wait ends.

    A job may wait for several things at once. Until its last wait ends, other work of the job also
    runs without a slot. A job that held a slot while it waits for a child could prevent the child
    from starting.
    """

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
        """Release the slot inside the `async with` block, and get a slot when the block ends.

        No slot is requested if the run must end. The request for a slot takes precedence over runs
        that are only queued.
        """
        self._execution.begin_wait()
        try:
            await self._update_slot()
            yield
        finally:  # Also if the job itself cancels the wait, for example by a timeout.
            self._execution.wait_count -= 1
            if self._execution.ending is None:
                await self._update_slot()

    async def _update_slot(self) -> None:
        """Release the slot if a wait is open. Otherwise get a slot if the execution has none."""
        async with self._lock:
            is_waiting = self._execution.wait_count > 0
            if is_waiting and self._has_slot:
                await self._before_wait()
                # Set before the await: if it is canceled, a later request is answered with HELD.
                self._has_slot = False
                release = ReleaseSlot(self._execution.claim)
                self._has_slot = not await retry_until_available(lambda: self._store.apply(release))
                self._execution.has_slot = self._has_slot
            elif not is_waiting and not self._has_slot:
                # Set before the await: if it is canceled, the next wait releases the slot, or
                # withdraws the request.
                self._has_slot = True
                slot = self._execution.expect_slot()
                request = RequestSlot(self._execution.claim)
                answer = await retry_until_available(lambda: self._store.apply(request))
                if answer is not SlotResult.HELD:
                    # Also wait after a refusal: the run must then end, and is canceled soon.
                    await slot
                self._execution.has_slot = True
