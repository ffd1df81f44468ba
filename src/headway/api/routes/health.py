"""`/healthz` reports that the process runs, and `/readyz` that it can commit writes."""

import asyncio
import time
from copy import copy
from typing import Final

from fastapi import APIRouter

from headway.api.headway_api import HeadwayApi
from headway.api.http.problem import unavailable
from headway.api.http.responses import problem_responses
from headway.api.routes.event_routes import EncodedEvent
from headway.api.wire.api_models import HealthView
from headway.core.command.admin.instance import Probe
from headway.core.errors import Error, StoreFailed
from headway.log import event_log
from headway.ports.store import Store
from headway.services.upkeep.event_feed import EventFeed

log = event_log(__name__)

READY_S_MAX: Final = 2.0
PROBE_INTERVAL_S: Final = 1.0


def health_router(api: HeadwayApi, feed: EventFeed[EncodedEvent]) -> APIRouter:
    router = APIRouter(tags=["operations"])
    readiness = _Readiness(api.store)

    @router.get("/healthz", responses=problem_responses())
    async def healthz() -> HealthView:
        """Answer 200 while the process runs."""
        return HealthView(status="ok")

    @router.get("/readyz", responses=problem_responses())
    async def readyz() -> HealthView:
        """Answer 200 if a write was committed just now, else 503 with the reason.

        A server that is stopping also answers 503.
        """
        if feed.is_closed:
            raise unavailable("this server is stopping", code="stopping")
        await readiness.check()
        return HealthView(status="ok")

    return router


class _Readiness:
    """Checks that the store can commit a write, with at most one write per second.

    All callers share the result of the last write, which is called the probe.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._probed_at_s = -PROBE_INTERVAL_S
        self._error: Error | None = None

    async def check(self) -> None:
        """Raise an error if the last probe failed or was not committed in time."""
        try:
            async with asyncio.timeout(READY_S_MAX), self._lock:
                if time.monotonic() - self._probed_at_s >= PROBE_INTERVAL_S:
                    await self._probe()
        except TimeoutError:
            raise unavailable("the database did not commit a write in time") from None
        if isinstance(self._error, StoreFailed):
            # The message quotes the database, and this call needs no token, so only the log has it.
            raise unavailable("the database refuses writes; check whether its disk is full")
        if self._error is not None:
            raise copy(self._error)  # Raising the same object again would extend its traceback.

    async def _probe(self) -> None:
        try:
            await self._store.apply(Probe())
            self._error = None
        except Error as error:
            self._error = error
            if isinstance(error, StoreFailed):  # Once per probe, however many requests share it.
                log.warning("readiness_probe_failed", extra={"reason": str(error)})
        self._probed_at_s = time.monotonic()
