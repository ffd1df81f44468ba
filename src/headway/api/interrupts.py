"""`/api/interrupts`: everything that waits for a person, and the answer to it."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from headway.api.answers import json_answer, problems
from headway.api.caller import By
from headway.api.cursor import Cursor, Limit, page_of, read_cursor, write_cursor
from headway.api.face import Face
from headway.api.runs import RunIdPath
from headway.api.strict import StrictRoute
from headway.api.views import interrupt_view, listed
from headway.api.wire import InterruptList, ResumeBody
from headway.core.ids import RunId
from headway.core.world import Question


def interrupts_router(face: Face) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["interrupts"], route_class=StrictRoute)

    @router.get(
        "/interrupts",
        response_class=Response,
        responses={200: {"model": InterruptList}, **problems()},
    )
    async def list_interrupts(
        limit: Limit = 100,
        run_id: Annotated[str | None, Query(max_length=64)] = None,
        cursor: Cursor = None,
    ) -> Response:
        """What runs ask and nobody has answered, the longest first."""
        asking = None if run_id is None else RunId(run_id)
        after = read_cursor(cursor, int, str, str)
        board = face.store.board
        found = await board.interrupts(limit=limit + 1, run_id=asking, after=after)
        shown, last = page_of(found, limit)
        onward = None if last is None else write_cursor(*_place(last.question))
        text = listed(map(interrupt_view, shown))
        return json_answer(f'{{"interrupts":{text},"cursor":{json.dumps(onward)}}}')

    @router.post("/runs/{run_id}/resume", responses=problems(404, 409, 429))
    async def resume(run_id: RunIdPath, body: ResumeBody, by: By) -> dict[str, Any]:
        """Answer a question that the job asks, by its `call_id`. The first answer stands."""
        answer = body.model_dump(exclude={"call_id"}, exclude_unset=True)
        await face.run(run_id).answer(body.call_id, answer, by=by)
        return {}

    return router


def _place(asked: Question) -> tuple[int, str, str]:
    return asked.asked_at, asked.run_id, asked.call_id
