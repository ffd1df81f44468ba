"""`/api/runs`: submit, list, look, explain, cancel, talk."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator

from headway.api.headway_api import HeadwayApi
from headway.api.http.caller import Actor
from headway.api.http.cursor import (
    Cursor,
    Page,
    build_page,
    decode_cursor,
    encode_cursor,
    split_page,
)
from headway.api.http.responses import (
    LOCATION_HEADER,
    json_response,
    problem_responses,
    success_response,
)
from headway.api.http.strict import StrictRoute
from headway.api.routes.submit_fast_path import IdempotencyKey, submit_request
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
from headway.core.command.run.cancel import CancelResult
from headway.core.errors import RunNotActive, RunNotFound
from headway.core.flow.engine.records import to_run_id
from headway.core.ids import Key, LaneName
from headway.core.run.status import RunStatus
from headway.ports.run_reader import RunFilter
from headway.services.submit.run_handle import RunHandle

RUN_PAGE_ITEM_COUNT_MAX: Final = 500

RunIdPath = Annotated[
    str,
    Path(max_length=64, examples=["0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10"]),
    AfterValidator(to_run_id),  # A task is a run; its id may have the form of the root paths.
]
RunIdQuery = Annotated[
    str | None,
    Query(min_length=1, max_length=64),
    AfterValidator(lambda run_id: None if run_id is None else to_run_id(run_id)),
]
RunPageLimit = Annotated[int, Query(ge=1, le=RUN_PAGE_ITEM_COUNT_MAX)]


def runs_router(face: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api/runs", tags=["runs"], route_class=StrictRoute)

    @router.post(
        "",
        status_code=201,
        response_class=Response,
        responses={
            **success_response(RunView, LOCATION_HEADER, status=201),
            **problem_responses(404, 409, 412, 429),
        },
    )
    async def submit(
        body: SubmitBody, by: Actor, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Accept a run, durably: with 201 it will not be lost.

        409 names the run that keeps the key busy. With the same Idempotency-Key the same run is
        answered, however often it is asked for.
        """
        return await submit_request(face, body, idempotency_key, by)

    @router.get(
        "", response_class=Response, responses={200: {"model": RunPage}, **problem_responses()}
    )
    async def list_runs(
        *,
        status: Annotated[list[Status] | None, Query(max_length=len(RunStatus))] = None,
        key: Annotated[Name | None, Query()] = None,
        job: Annotated[Name | None, Query()] = None,
        lane: Annotated[Name | None, Query()] = None,
        limit: RunPageLimit = 50,
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
        (before_seq,) = decode_cursor(cursor, int) or (None,)
        found = face.store.runs.list_runs(wanted, limit=limit + 1, before_seq=before_seq)
        texts = (((record.run.seq,), run_view(record)) async for record in found)
        return await build_page("runs", texts, limit=limit)

    _add_read_routes(router, face)
    _add_control_routes(router, face)
    return router


def _add_read_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.get(
        "/{run_id}",
        response_class=Response,
        responses={200: {"model": RunDetails}, **problem_responses(404)},
    )
    async def get_run(run_id: RunIdPath) -> Response:
        """All that is known of a run now."""
        return json_response(run_details(await face.run(run_id).record()))

    @router.get(
        "/{run_id}/explain",
        response_class=Response,
        responses={200: {"model": ExplanationView}, **problem_responses(404)},
    )
    async def explain(run_id: RunIdPath) -> Response:
        """Why the run does not move, who holds it, and what would free it."""
        return json_response(explanation_view(await face.explain(run_id)))

    @router.get(
        "/{run_id}/files",
        response_class=Response,
        responses={200: {"model": FileList}, **problem_responses(404)},
    )
    async def list_files(
        run_id: RunIdPath, limit: RunPageLimit = 100, cursor: Cursor = None
    ) -> Response:
        """The finished files that the run has made and nobody has replaced since, by path."""
        (after,) = decode_cursor(cursor, str) or ("",)
        record = await face.run(run_id).record()
        found = await face.store.files.list_run_files(record.run.id, limit=limit + 1, after=after)
        files, last = split_page(found, limit)
        onward = None if last is None else encode_cursor(last.path)
        return Page("files", (file_view(file).encode() for file in files), onward)

    @router.get(
        "/{run_id}/messages",
        response_class=Response,
        responses={200: {"model": MessageList}, **problem_responses(404)},
    )
    async def list_messages(
        run_id: RunIdPath, limit: RunPageLimit = 100, cursor: Cursor = None
    ) -> Response:
        """List the messages that were sent to the run, in order, and whether its job read them."""
        (after_seq,) = decode_cursor(cursor, int) or (None,)
        run = (await face.run(run_id).record()).run
        found = face.store.runs.messages(run.id, limit=limit + 1, after_seq=after_seq)
        texts = (((item.seq,), message_view(item)) async for item in found)
        return await build_page("messages", texts, limit=limit)


def _add_control_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.post(
        "/{run_id}/cancel",
        status_code=202,
        response_class=Response,
        responses={202: {"model": CancelView}, **problem_responses(404, 409)},
    )
    async def cancel(run_id: RunIdPath, by: Actor, body: CancelBody | None = None) -> Response:
        """Ask for its end. `answer` tells the truth: over already, or yet to unwind."""
        handle = face.run(run_id)
        answer = await cancel_run(handle, body, by)
        text = run_view(await handle.record())
        return json_response(f'{{"answer":"{answer.value}","run":{text}}}', status=202)

    @router.post("/{run_id}/messages", status_code=202, responses=problem_responses(404, 409, 429))
    async def send(
        run_id: RunIdPath, body: MessageBody, by: Actor, idempotency_key: IdempotencyKey = None
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


async def cancel_run(handle: RunHandle, body: CancelBody | None, by: str) -> CancelResult:
    """How that was answered; RunNotActive when there is nothing left to end."""
    wanted = body or CancelBody(files="keep", reason="")
    answer = await handle.cancel(files=wanted.files, reason=wanted.reason, by=by)
    if answer is CancelResult.NOT_FOUND:
        raise RunNotFound(handle.id)
    if answer is CancelResult.TOO_LATE:
        raise RunNotActive(handle.id)
    return answer
