"""`/healthz`, `/readyz`: whether the process lives, and whether it can do its work."""

import asyncio
import time
from copy import copy
from typing import Final

from fastapi import APIRouter

from headway.api.answers import problems
from headway.api.events import Packed
from headway.api.face import Face
from headway.api.problem import unavailable
from headway.api.wire import HealthView
from headway.core.command.probe import Probe
from headway.core.errors import Error
from headway.ports.store import Store
from headway.services.event_feed import EventFeed

READY_S_MAX: Final = 2.0
ASKED_AGAIN_S: Final = 1.0


def health_router(face: Face, feed: EventFeed[Packed]) -> APIRouter:
    router = APIRouter(tags=["operations"])
    readiness = _Readiness(face.store)

    @router.get("/healthz", responses=problems())
    async def healthz() -> HealthView:
        """The process lives."""
        return HealthView(status="ok")

    @router.get("/readyz", responses=problems())
    async def readyz() -> HealthView:
        """The database takes writes, too; 503 when it does not, and when the server stops."""
        if feed.is_closed:
            raise unavailable("this server is stopping", code="stopping")
        await readiness.check()
        return HealthView(status="ok")

    return router


class _Readiness:
    """Whoever asks, and however often: the database is asked once a second at most."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._asked_at_s = -ASKED_AGAIN_S
        self._fault: Error | None = None

    async def check(self) -> None:
        """Raise what is wrong, or return in time."""
        try:
            async with asyncio.timeout(READY_S_MAX), self._turn:
                if time.monotonic() - self._asked_at_s >= ASKED_AGAIN_S:
                    await self._ask()
        except TimeoutError:
            raise unavailable("the database does not take writes in time") from None
        if self._fault is not None:
            raise copy(self._fault)  # A traceback grows wherever an error is raised.

    async def _ask(self) -> None:
        try:
            await self._store.apply(Probe())
            self._fault = None
        except Error as error:
            self._fault = error
        self._asked_at_s = time.monotonic()
