"""`/api/tasks` and `/api/workers`: what flows do, and who does it."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from headway.api.headway_api import HeadwayApi
from headway.api.http.caller import Actor
from headway.api.http.cursor import (
    INT32_MAX,
    PAGE_ITEM_COUNT_MAX,
    Cursor,
    Limit,
    build_page,
    decode_cursor,
    take_fitting,
)
from headway.api.http.responses import (
    LOCATION_HEADER,
    json_response,
    problem_responses,
    success_response,
)
from headway.api.http.strict import StrictRoute
from headway.api.routes.run_routes import cancel_run
from headway.api.routes.submit_fast_path import IdempotencyKey
from headway.api.wire.api_models import CancelBody, Name, Seconds, Status
from headway.api.wire.flow_bodies import (
    ApproveBody,
    RerunBody,
    SignalBody,
    TaskBody,
    encode_json,
    node_run_view,
    task_view,
    worker_view,
)
from headway.api.wire.flow_views import (
    NodeRunList,
    TaskCancelView,
    TaskList,
    TaskResponse,
    WorkerList,
)
from headway.api.wire.path_names import FLOW_PREFIX, NamePath
from headway.core.errors import KeyBusy, RunNotFound
from headway.core.run.status import RunStatus
from headway.core.worker.saved_worker import TTL_S
from headway.ports.flow_reader import TaskFilter
from headway.services.flow.task_view import ROW_COUNT_MAX
from headway.services.flow.task_view import TaskView as FoundTask

# The routes whose answer is a new task.
NEW_TASK_ROUTE: Final[dict[str, Any]] = {
    "tags": ["tasks"],
    "response_class": Response,
    "status_code": 201,
    "responses": {
        **success_response(TaskResponse, LOCATION_HEADER, status=201),
        **problem_responses(404, 409, 429),
    },
}
HeartbeatWithin = Annotated[Seconds, Query(description="The silent ones too, if it is long ago.")]


def tasks_router(face: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _add_start_route(router, face)
    _add_list_routes(router, face)
    _add_detail_routes(router, face)
    _add_signal_routes(router, face)
    _add_end_routes(router, face)
    return router


def _add_start_route(router: APIRouter, face: HeadwayApi) -> None:
    @router.post(f"{FLOW_PREFIX}/tasks", **NEW_TASK_ROUTE)
    async def start_task(
        name: NamePath, body: TaskBody, by: Actor, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Start a task of the flow, durably. With the same Idempotency-Key it is the same task."""
        run = await face.flows.start(
            name,
            params=body.params,
            version=body.version,
            key=body.key,
            lane=body.lane,
            timeout_s=body.timeout_s,
            queue_timeout_s=body.queue_timeout_s,
            on_conflict=body.on_conflict,
            idempotency_key=idempotency_key,
            by=by,
        )
        try:
            task = await face.flows.task(run.id)
        except RunNotFound:
            found = await run.record()  # What has the key is a run, and no task.
            raise KeyBusy(found.run.key, run.id) from None
        return _started_response(task)


def _add_list_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.get(
        "/tasks",
        tags=["tasks"],
        response_class=Response,
        responses={200: {"model": TaskList}, **problem_responses()},
    )
    async def list_tasks(
        status: Annotated[Status | None, Query()] = None,
        flow: Annotated[Name | None, Query()] = None,
        waits_for: Annotated[Name | None, Query(description="Such as `approval`.")] = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        """Those that moved last come first; one that moves meanwhile is first again.

        A page has less than `limit` when more would be too large; `cursor` leads to the rest.
        """
        wanted = TaskFilter(
            statuses=[] if status is None else [RunStatus(status)], flow=flow, waits_for=waits_for
        )
        after = decode_cursor(cursor, int, str)
        found = face.flows.iter_tasks(wanted, limit=limit + 1, after=after)
        texts = ((task.position, encode_json(task_view(task))) async for task in found)
        return await build_page("tasks", texts, limit=limit)

    @router.get(
        "/tasks/{task_id}",
        tags=["tasks"],
        response_class=Response,
        responses={200: {"model": TaskResponse}, **problem_responses(404)},
    )
    async def get_task(task_id: NamePath) -> Response:
        """A task: where it is, what it waits for, and its shared state."""
        return json_response(encode_json(task_view(await face.flows.task(task_id))))


def _add_detail_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.get(
        "/tasks/{task_id}/node-runs",
        tags=["tasks"],
        response_class=Response,
        responses={200: {"model": NodeRunList}, **problem_responses(404)},
    )
    async def list_node_runs(
        task_id: NamePath,
        after: Annotated[int, Query(ge=0, le=INT32_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=ROW_COUNT_MAX)] = PAGE_ITEM_COUNT_MAX,
    ) -> Response:
        """What its nodes have done, in the order of their ends; `after` is a `seq`."""
        found = face.flows.iter_node_runs(task_id, limit=limit + 1, after_seq=after)
        texts = ((row.seq, encode_json(node_run_view(row)).encode()) async for row in found)
        _, rows, has_more = await take_fitting(texts, limit=limit)
        onward = encode_json(has_more).encode()
        return json_response(b'{"node_runs":[%b],"has_more":%b}' % (b",".join(rows), onward))

    @router.get(
        "/workers",
        tags=["workers"],
        response_class=Response,
        responses={200: {"model": WorkerList}, **problem_responses()},
    )
    async def list_workers(heard_within_s: HeartbeatWithin = TTL_S) -> Response:
        """Those that were heard of so lately, the least load first; else only the live ones."""
        found = await face.workers.list(ttl_s=heard_within_s)
        views = [
            worker_view(
                one, is_alive=face.workers.is_alive(one), calls=face.workers.calls_of(one.id)
            )
            for one in found
        ]
        return json_response(encode_json({"workers": views}))


def _add_signal_routes(router: APIRouter, face: HeadwayApi) -> None:
    async def shown(task_id: str) -> Response:
        return json_response(encode_json(task_view(await face.flows.task(task_id))), status=202)

    refusals = problem_responses(404, 409, 429)
    steering: dict[str, Any] = {
        "tags": ["tasks"],
        "response_class": Response,
        "status_code": 202,
        "responses": {**success_response(TaskResponse, status=202), **refusals},
    }

    @router.post("/tasks/{task_id}/signal", **steering)
    async def signal_task(task_id: NamePath, body: SignalBody, by: Actor) -> Response:
        """Set a key of the task's shared state, and wake it."""
        await face.flows.signal(task_id, body.key, body.value, by=by)
        return await shown(task_id)

    @router.post("/tasks/{task_id}/approve", **steering)
    async def approve_task(task_id: NamePath, body: ApproveBody, by: Actor) -> Response:
        """Answer the approval that it waits for; the first answer stands."""
        await face.flows.approve(task_id, body.answer, by=by)
        return await shown(task_id)


def _add_end_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.post(
        "/tasks/{task_id}/cancel",
        tags=["tasks"],
        response_class=Response,
        status_code=202,
        responses={**success_response(TaskCancelView, status=202), **problem_responses(404, 409)},
    )
    async def cancel_task(task_id: NamePath, by: Actor, body: CancelBody | None = None) -> Response:
        """Ask for its end, and for that of all it has started. `answer` as with a run's cancel."""
        task = await face.flows.task(task_id)
        answer = await cancel_run(face.run(task.id), body, by)
        view = task_view(await face.flows.task(task_id))
        return json_response(encode_json({"answer": answer.value, "task": view}), status=202)

    @router.post("/tasks/{task_id}/rerun", **NEW_TASK_ROUTE)
    async def rerun_task(
        task_id: NamePath, body: RerunBody, by: Actor, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """A new task that begins at a node, with the shared state of this one."""
        run = await face.flows.rerun(task_id, body.node, idempotency_key=idempotency_key, by=by)
        return _started_response(await face.flows.task(run.id))


def _started_response(task: FoundTask) -> Response:
    return json_response(encode_json(task_view(task)), status=201, location=f"/api/tasks/{task.id}")
