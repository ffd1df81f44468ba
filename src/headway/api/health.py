"""`/healthz`, `/readyz`: whether the process lives, and whether it can do its work."""

from fastapi import APIRouter

from headway.api.answers import problems
from headway.api.face import Face
from headway.api.wire import HealthView


def health_router(face: Face) -> APIRouter:
    router = APIRouter(tags=["operations"])

    @router.get("/healthz")
    async def healthz() -> HealthView:
        """The process lives."""
        return HealthView(status="ok")

    @router.get("/readyz", responses=problems())
    async def readyz() -> HealthView:
        """The database answers, too; 503 when it does not."""
        await face.store.events.events(after_seq=0, limit=1)
        return HealthView(status="ok")

    return router
