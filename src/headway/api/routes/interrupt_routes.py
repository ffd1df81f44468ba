"""`/api/interrupts`: everything that waits for a person, and the answer to it."""

from typing import Any

from fastapi import APIRouter, Response

from headway.api.headway_api import HeadwayApi
from headway.api.http.caller import Actor
from headway.api.http.cursor import Cursor, Limit, build_page, decode_cursor
from headway.api.http.responses import problem_responses
from headway.api.http.strict import StrictRoute
from headway.api.routes.run_routes import RunIdPath, RunIdQuery
from headway.api.wire.api_models import InterruptList, ResumeBody
from headway.api.wire.views import interrupt_view
from headway.core.ids import RunId


def interrupts_router(face: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["interrupts"], route_class=StrictRoute)

    @router.get(
        "/interrupts",
        response_class=Response,
        responses={200: {"model": InterruptList}, **problem_responses()},
    )
    async def list_interrupts(
        limit: Limit = 100,
        run_id: RunIdQuery = None,
        cursor: Cursor = None,
    ) -> Response:
        """What runs ask and nobody has answered, the longest first.

        A page has less than `limit` when more would be too large; `cursor` leads to the rest.
        """
        asking = None if run_id is None else RunId(run_id)
        after = decode_cursor(cursor, int, str, str)
        found = face.store.board.interrupts(limit=limit + 1, run_id=asking, after=after)
        texts = ((one.cursor, interrupt_view(one)) async for one in found)
        return await build_page("interrupts", texts, limit=limit)

    @router.post("/runs/{run_id}/resume", responses=problem_responses(404, 409, 429))
    async def resume(run_id: RunIdPath, body: ResumeBody, by: Actor) -> dict[str, Any]:
        """Answer a question that the job asks, by its `call_id`. The first answer stands."""
        answer = body.model_dump(exclude={"call_id"}, exclude_unset=True)
        await face.run(run_id).answer(body.call_id, answer, by=by)
        return {}

    return router
