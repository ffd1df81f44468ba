"""`/api/runs`: submit, list, read, explain and cancel runs, and send them messages."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator

from headway.api.headway_api import HeadwayApi
from headway.api.http.cursor import (
    Cursor,
    Page,
    build_page,
    decode_cursor,
    encode_cursor,
    split_page,
)
from headway.api.http.request import Actor
from headway.api.http.responses import (
    json_response,
    problem_responses,
)
from headway.api.http.strict import StrictRoute
from headway.api.routes.submit_routes import RUNS_PATH, IdempotencyKey, add_submit_route
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
)
from headway.api.wire.views import (
    encode_cancel,
    explanation_view,
    file_view,
    message_view,
    run_details,
    run_view,
)
from headway.core.command.run.cancel import CancelResult
from headway.core.errors import RunNotActive, RunNotFound
from headway.core.flow.engine.records import to_run_id
from headway.core.ids import Key, LaneName
from headway.core.run.run import FilesOnCancel
from headway.core.run.status import RunStatus
from headway.ports.run_reader import RunFilter
from headway.services.submit.run_handle import RunHandle

RUN_PAGE_ITEM_COUNT_MAX: Final = 500

RunIdPath = Annotated[
    str,
    Path(max_length=64, examples=["0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10"]),
    AfterValidator(to_run_id),  # A task is a run. Its id may have the `task-` prefix of the v1 API.
]
RunIdQuery = Annotated[
    str | None,
    Query(min_length=1, max_length=64),
    AfterValidator(lambda run_id: None if run_id is None else to_run_id(run_id)),
]
RunPageLimit = Annotated[int, Query(ge=1, le=RUN_PAGE_ITEM_COUNT_MAX)]


def runs_router(api: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix=RUNS_PATH, tags=["runs"], route_class=StrictRoute)
    add_submit_route(router, api)

    @router.get(
        "", response_class=Response, responses={200: {"model": RunPage}, **problem_responses()}
    )
    async def list_runs(
        *,
        status: Annotated[list[RunStatus] | None, Query(max_length=len(RunStatus))] = None,
        key: Annotated[Name | None, Query()] = None,
        job: Annotated[Name | None, Query()] = None,
        lane: Annotated[Name | None, Query()] = None,
        limit: RunPageLimit = 50,
        cursor: Cursor = None,
    ) -> Response:
        """List runs, the newest first.

        A page has fewer than `limit` items if it would be too large. `cursor` leads to the rest.
        """
        run_filter = RunFilter(
            statuses=frozenset(status or ()),
            key=None if key is None else Key(key),
            job=job,
            lane=None if lane is None else LaneName(lane),
        )
        (before_seq,) = decode_cursor(cursor, int) or (None,)
        records = api.store.runs.list_runs(run_filter, limit=limit + 1, before_seq=before_seq)
        items = (((record.run.seq,), run_view(record)) async for record in records)
        return await build_page(RunPage, items, limit=limit)

    _add_read_routes(router, api)
    _add_control_routes(router, api)
    return router


def _add_read_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.get(
        "/{run_id}",
        response_class=Response,
        responses={200: {"model": RunDetails}, **problem_responses(404)},
    )
    async def get_run(run_id: RunIdPath) -> Response:
        """Return a run with all of its details."""
        return json_response(run_details(await api.run(run_id).record()))

    @router.get(
        "/{run_id}/explain",
        response_class=Response,
        responses={200: {"model": ExplanationView}, **problem_responses(404)},
    )
    async def explain(run_id: RunIdPath) -> Response:
        """Explain why a run does not proceed, which runs block it, and the remedy."""
        return json_response(explanation_view(await api.explain(run_id)))

    @router.get(
        "/{run_id}/files",
        response_class=Response,
        responses={200: {"model": FileList}, **problem_responses(404)},
    )
    async def list_files(
        run_id: RunIdPath, limit: RunPageLimit = 100, cursor: Cursor = None
    ) -> Response:
        """List the finished files of a run by path, without those that a later run replaced."""
        (after,) = decode_cursor(cursor, str) or ("",)
        record = await api.run(run_id).record()
        rows = await api.store.files.list_run_files(record.run.id, limit=limit + 1, after=after)
        files, last = split_page(rows, limit)
        next_cursor = None if last is None else encode_cursor(last.path)
        return Page(FileList, (file_view(file).encode() for file in files), next_cursor)

    @router.get(
        "/{run_id}/messages",
        response_class=Response,
        responses={200: {"model": MessageList}, **problem_responses(404)},
    )
    async def list_messages(
        run_id: RunIdPath, limit: RunPageLimit = 100, cursor: Cursor = None
    ) -> Response:
        """List the messages to a run in order. `read` is true if the job has read the message."""
        (after_seq,) = decode_cursor(cursor, int) or (None,)
        run = (await api.run(run_id).record()).run
        messages = api.store.runs.messages(run.id, limit=limit + 1, after_seq=after_seq)
        items = (((message.seq,), message_view(message)) async for message in messages)
        return await build_page(MessageList, items, limit=limit)


def _add_control_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.post(
        "/{run_id}/cancel",
        status_code=202,
        response_class=Response,
        responses={202: {"model": CancelView}, **problem_responses(404, 409)},
    )
    async def cancel(run_id: RunIdPath, by: Actor, body: CancelBody | None = None) -> Response:
        """Cancel a run.

        `answer` is `canceled` if the run has ended, and `requested` if it has yet to stop.
        """
        handle = api.run(run_id)
        result = await cancel_run(handle, body, by)
        text = run_view(await handle.record())
        return json_response(encode_cancel(answer=result, run=text), status=202)

    @router.post("/{run_id}/messages", status_code=202, responses=problem_responses(404, 409, 429))
    async def send(
        run_id: RunIdPath, body: MessageBody, by: Actor, idempotency_key: IdempotencyKey = None
    ) -> dict[str, Any]:
        """Send a message to the job. 202 means that the message will reach it.

        If the job does not listen, the response is 409 with the `reason`. With `"deliver":
        "when_listening"` the run's inbox stores the message until the job listens. The event
        `run_messages_unread` reports messages that the job has not read when the run ends. With an
        Idempotency-Key the message is sent once.
        """
        await api.run(run_id).send(
            body.content, deliver=body.deliver, by=by, idempotency_key=idempotency_key
        )
        return {}


async def cancel_run(handle: RunHandle, body: CancelBody | None, by: str) -> CancelResult:
    """Cancel a run with the options in `body`, and return the result.

    Raise RunNotFound if the run does not exist. Raise RunNotActive if it has ended or is about to
    end.
    """
    options = body or CancelBody(files=FilesOnCancel.KEEP, reason="")
    result = await handle.cancel(files=options.files, reason=options.reason, by=by)
    if result is CancelResult.NOT_FOUND:
        raise RunNotFound(handle.id)
    if result is CancelResult.TOO_LATE:
        raise RunNotActive(handle.id)
    return result
