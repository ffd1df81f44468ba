"""`/api/interrupts` and `/api/runs/{run_id}/resume`: open interrupts and their answers."""

from typing import Any

from fastapi import APIRouter, Response

from headway.api.headway_api import HeadwayApi
from headway.api.http.cursor import Cursor, Limit, build_page, decode_cursor
from headway.api.http.request import Actor
from headway.api.http.responses import problem_responses
from headway.api.http.strict import StrictRoute
from headway.api.routes.run_routes import RunIdPath, RunIdQuery
from headway.api.wire.api_models import InterruptList, ResumeBody
from headway.api.wire.views import interrupt_view
from headway.core.ids import RunId


def interrupts_router(api: HeadwayApi) -> APIRouter:
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
        """List the interrupts that have no answer yet, the oldest first.

        A page has fewer than `limit` items if it would be too large. `cursor` leads to the rest.
        """
        after = decode_cursor(cursor, int, str, str)
        interrupts = api.store.board.interrupts(
            limit=limit + 1, run_id=None if run_id is None else RunId(run_id), after=after
        )
        items = ((interrupt.cursor, interrupt_view(interrupt)) async for interrupt in interrupts)
        return await build_page(InterruptList, items, limit=limit)

    @router.post("/runs/{run_id}/resume", responses=problem_responses(404, 409, 429))
    async def resume(run_id: RunIdPath, body: ResumeBody, by: Actor) -> dict[str, Any]:
        """Answer the interrupt with this `call_id`. Only the first answer counts."""
        answer = body.model_dump(exclude={"call_id"}, exclude_unset=True)
        await api.run(run_id).answer(body.call_id, answer, by=by)
        return {}

    return router
