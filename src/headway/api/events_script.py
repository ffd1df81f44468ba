"""`/events.js`: a JavaScript client of the event protocol."""

from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Response

SCRIPT_TYPE: Final = "text/javascript; charset=utf-8"


def script_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    script = files("headway.api.static").joinpath("events.js").read_text(encoding="utf-8")

    @router.get("/events.js")
    async def events_script() -> Response:
        """Return a JavaScript module that follows the event stream."""
        return Response(script, media_type=SCRIPT_TYPE, headers={"cache-control": "no-cache"})

    return router
