"""`/api/runs`: submit, list, look, explain, cancel, talk."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator

from headway.api.headway_api import Face
from headway.api.http.caller import By
from headway.api.http.cursor import Cursor, Page, page_of, page_that_fits, read_cursor, write_cursor
from headway.api.http.responses import LOCATION, answered, json_answer, problems
from headway.api.http.strict import StrictRoute
from headway.api.routes.submit_fast_path import IdempotencyKey, submitted
from headway.api.wire.api_models import (
    CancelBody,
    CancelView,
    ExplanationView,
    FileList,
    MessageBody,
    MessageList,
    Name,
    RunDetails,
    RunPage,
    RunView,
    Status,
    SubmitBody,
)
from headway.api.wire.views import explanation_view, file_view, message_view, run_details, run_view
from headway.core.command.run.cancel import CancelAnswer
from headway.core.errors import RunNotActive, RunNotFound
from headway.core.flow.engine.records import to_run_id
from headway.core.ids import Key, LaneName
from headway.core.run.status import RunStatus
from headway.ports.run_reader import RunFilter
from headway.services.submit.run_handle import RunHandle

PAGE_COUNT_MAX: Final = 500

RunIdPath = Annotated[
    str,
    Path(max_length=64, examples=["0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10"]),
    AfterValidator(to_run_id),  # A task is a run; its id may have the form of the root paths.
]
OfRun = Annotated[
    str | None,
    Query(min_length=1, max_length=64),
    AfterValidator(lambda run_id: None if run_id is None else to_run_id(run_id)),
]
PageCount = Annotated[int, Query(ge=1, le=PAGE_COUNT_MAX)]


def runs_router(face: Face) -> APIRouter:
    router = APIRouter(prefix="/api/runs", tags=["runs"], route_class=StrictRoute)

    @router.post(
        "",
        status_code=201,
        response_class=Response,
        responses={
            **answered(RunView, LOCATION, status=201),
            **problems(404, 409, 412, 429),
        },
    )
    async def submit(body: SubmitBody, by: By, idempotency_key: IdempotencyKey = None) -> Response:
        """Accept a run, durably: with 201 it will not be lost.

        409 names the run that keeps the key busy. With the same Idempotency-Key the same run is
        answered, however often it is asked for.
        """
        return await submitted(face, body, idempotency_key, by)

    @router.get("", response_class=Response, responses={200: {"model": RunPage}, **problems()})
    async def list_runs(
        *,
        status: Annotated[list[Status] | None, Query(max_length=len(RunStatus))] = None,
        key: Annotated[Name | None, Query()] = None,
        job: Annotated[Name | None, Query()] = None,
        lane: Annotated[Name | None, Query()] = None,
        limit: PageCount = 50,
        cursor: Cursor = None,
    ) -> Response:
        """Newest first, a page at a time.

        A page has less than `limit` when more would be too large; `cursor` leads to the rest.
        """
        wanted = RunFilter(
            statuses=frozenset(RunStatus(word) for word in status or ()),
            key=None if key is None else Key(key),
            job=job,
            lane=None if lane is None else LaneName(lane),
        )
        (before_seq,) = read_cursor(cursor, int) or (None,)
        found = face.store.runs.list_runs(wanted, limit=limit + 1, before_seq=before_seq)
        texts = (((record.run.seq,), run_view(record)) async for record in found)
        return await page_that_fits("runs", texts, limit=limit)

    _look(router, face)
    _talk(router, face)
    return router


def _look(router: APIRouter, face: Face) -> None:
    @router.get(
        "/{run_id}",
        response_class=Response,
        responses={200: {"model": RunDetails}, **problems(404)},
    )
    async def get_run(run_id: RunIdPath) -> Response:
        """All that is known of a run now."""
        return json_answer(run_details(await face.run(run_id).record()))

    @router.get(
        "/{run_id}/explain",
        response_class=Response,
        responses={200: {"model": ExplanationView}, **problems(404)},
    )
    async def explain(run_id: RunIdPath) -> Response:
        """Why the run does not move, who holds it, and what would free it."""
        return json_answer(explanation_view(await face.explain(run_id)))

    @router.get(
        "/{run_id}/files",
        response_class=Response,
        responses={200: {"model": FileList}, **problems(404)},
    )
    async def list_files(
        run_id: RunIdPath, limit: PageCount = 100, cursor: Cursor = None
    ) -> Response:
        """The finished files that the run has made and nobody has replaced since, by path."""
        (after,) = read_cursor(cursor, str) or ("",)
        record = await face.run(run_id).record()
        found = await face.store.files.files_made(record.run.id, limit=limit + 1, after=after)
        files, last = page_of(found, limit)
        onward = None if last is None else write_cursor(last.path)
        return Page("files", (file_view(file).encode() for file in files), onward)

    @router.get(
        "/{run_id}/messages",
        response_class=Response,
        responses={200: {"model": MessageList}, **problems(404)},
    )
    async def list_messages(
        run_id: RunIdPath, limit: PageCount = 100, cursor: Cursor = None
    ) -> Response:
        """List the messages that were sent to the run, in order, and whether its job read them."""
        (after_seq,) = read_cursor(cursor, int) or (None,)
        run = (await face.run(run_id).record()).run
        found = face.store.runs.messages(run.id, limit=limit + 1, after_seq=after_seq)
        texts = (((item.seq,), message_view(item)) async for item in found)
        return await page_that_fits("messages", texts, limit=limit)


def _talk(router: APIRouter, face: Face) -> None:
    @router.post(
        "/{run_id}/cancel",
        status_code=202,
        response_class=Response,
        responses={202: {"model": CancelView}, **problems(404, 409)},
    )
    async def cancel(run_id: RunIdPath, by: By, body: CancelBody | None = None) -> Response:
        """Ask for its end. `answer` tells the truth: over already, or yet to unwind."""
        handle = face.run(run_id)
        answer = await asked_to_end(handle, body, by)
        text = run_view(await handle.record())
        return json_answer(f'{{"answer":"{answer.value}","run":{text}}}', status=202)

    @router.post("/{run_id}/messages", status_code=202, responses=problems(404, 409, 429))
    async def send(
        run_id: RunIdPath, body: MessageBody, by: By, idempotency_key: IdempotencyKey = None
    ) -> dict[str, Any]:
        """Send a message to the job. 202 means that the message will reach it.

        If the job does not listen, the answer is 409 with the `reason`. With `"deliver":
        "when_listening"` the run's inbox stores the message until the job listens. The event
        `run_messages_unread` reports messages that the job has not read when the run ends. With an
        Idempotency-Key the message is sent once.
        """
        await face.run(run_id).send(
            body.content, deliver=body.deliver, by=by, idempotency_key=idempotency_key
        )
        return {}


async def asked_to_end(handle: RunHandle, body: CancelBody | None, by: str) -> CancelAnswer:
    """How that was answered; RunNotActive when there is nothing left to end."""
    wanted = body or CancelBody(files="keep", reason="")
    answer = await handle.cancel(files=wanted.files, reason=wanted.reason, by=by)
    if answer is CancelAnswer.NOT_FOUND:
        raise RunNotFound(handle.id)
    if answer is CancelAnswer.TOO_LATE:
        raise RunNotActive(handle.id)
    return answer
