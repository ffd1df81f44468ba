"""Progress: a job may report as often as it likes, and ten times a second it is written down."""

import asyncio
import time
from contextlib import suppress
from typing import Final

from headway.core.command.report import SaveProgress
from headway.core.document import Document
from headway.core.errors import InfrastructureError
from headway.core.run.run import Claim
from headway.ports.store import Store
from headway.services.patience import persistently

INTERVAL_S: Final = 0.1


class ProgressReport:
    """What comes too soon waits for its time, and only the last one counts."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._latest: Document | None = None
        self._written_at_s = float("-inf")
        self._waiting: asyncio.Task[None] | None = None

    async def put(self, progress: Document) -> None:
        self._latest = progress
        wait_s = self._written_at_s + INTERVAL_S - time.monotonic()
        if wait_s <= 0:
            await persistently(self._write)
        elif self._waiting is None:
            self._waiting = asyncio.create_task(self._write_after(wait_s))

    async def end(self) -> None:
        """Write what is still waiting; nothing follows."""
        if self._waiting is not None:
            self._waiting.cancel()
            with suppress(asyncio.CancelledError):
                await self._waiting
        await self._write()

    async def _write_after(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        self._waiting = None
        with suppress(InfrastructureError):  # The next one, or the end, will tell.
            await self._write()

    async def _write(self) -> None:
        progress, self._latest = self._latest, None
        if progress is not None:
            self._written_at_s = time.monotonic()
            try:
                await self._store.apply(SaveProgress(self._claim, progress))
            except InfrastructureError:
                if self._latest is None:  # Else a newer one has come meanwhile.
                    self._latest = progress
                raise
