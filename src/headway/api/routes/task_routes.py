"""`/api/tasks` and `/api/workers`: the tasks of flows, and the workers that serve them."""

from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Query, Response

from headway.api.headway_api import HeadwayApi
from headway.api.http.cursor import (
    INT32_MAX,
    PAGE_ITEM_COUNT_MAX,
    Cursor,
    Limit,
    build_page,
    decode_cursor,
    take_fitting,
)
from headway.api.http.request import Actor
from headway.api.http.responses import (
    LOCATION_HEADER,
    json_response,
    problem_responses,
    success_response,
)
from headway.api.http.strict import StrictRoute
from headway.api.routes.run_routes import cancel_run
from headway.api.routes.submit_routes import IdempotencyKey
from headway.api.wire.api_models import CancelBody, Name, Seconds
from headway.api.wire.flow_bodies import (
    ApproveBody,
    RerunBody,
    SignalBody,
    TaskBody,
)
from headway.api.wire.flow_views import (
    NodeRunList,
    NodeRunView,
    TaskCancelView,
    TaskList,
    TaskResponse,
    WorkerList,
    encode_node_run_list,
    encode_task_cancel,
    encode_worker_list,
    node_run_view,
    task_view,
    worker_view,
)
from headway.api.wire.path_names import FLOW_PREFIX, NamePath
from headway.core.errors import KeyBusy, RunNotFound
from headway.core.json_encoder import Json
from headway.core.run.status import RunStatus
from headway.core.worker.saved_worker import TTL_S
from headway.ports.flow_reader import TaskFilter
from headway.services.flow.task_view import ROW_COUNT_MAX, TaskView

NEW_TASK_ROUTE: Final[dict[str, Any]] = {
    "tags": ["tasks"],
    "response_class": Response,
    "status_code": 201,
    "responses": {
        **success_response(TaskResponse, LOCATION_HEADER, status=201),
        **problem_responses(404, 409, 429),
    },
}
"""Options of the routes that return a new task."""
HeartbeatWithin = Annotated[
    Seconds, Query(description="Maximum age of the last heartbeat. Default: live workers.")
]


def tasks_router(api: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _add_start_route(router, api)
    _add_list_routes(router, api)
    _add_detail_routes(router, api)
    _add_signal_routes(router, api)
    _add_end_routes(router, api)
    return router


def _add_start_route(router: APIRouter, api: HeadwayApi) -> None:
    @router.post(f"{FLOW_PREFIX}/tasks", **NEW_TASK_ROUTE)
    async def start_task(
        name: NamePath, body: TaskBody, by: Actor, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Start a task of a flow. After 201 the task is stored durably.

        Repeated requests with the same Idempotency-Key return the same task.
        """
        run = await api.flows.start(
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
            task = await api.flows.task(run.id)
        except RunNotFound:
            record = await run.record()  # `join` has returned a run of a job, which is no task.
            raise KeyBusy(record.run.key, run.id) from None
        return _started_response(task)


def _add_list_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.get(
        "/tasks",
        tags=["tasks"],
        response_class=Response,
        responses={200: {"model": TaskList}, **problem_responses()},
    )
    async def list_tasks(
        status: Annotated[RunStatus | None, Query()] = None,
        flow: Annotated[Name | None, Query()] = None,
        waits_for: Annotated[
            Name | None, Query(description="The reason for waiting, such as `approval`.")
        ] = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        """List tasks, the last updated first. A task that is updated moves to the front.

        A page has fewer than `limit` items if it would be too large. `cursor` leads to the rest.
        """
        task_filter = TaskFilter(
            statuses=[] if status is None else [status], flow=flow, waits_for=waits_for
        )
        after = decode_cursor(cursor, int, str)
        tasks = api.flows.iter_tasks(task_filter, limit=limit + 1, after=after)
        items = ((task.position, task_view(task)) async for task in tasks)
        return await build_page(TaskList, items, limit=limit)

    @router.get(
        "/tasks/{task_id}",
        tags=["tasks"],
        response_class=Response,
        responses={200: {"model": TaskResponse}, **problem_responses(404)},
    )
    async def get_task(task_id: NamePath) -> Response:
        """Return a task, with its node, its shared state, and the reason for waiting, if any."""
        return json_response(task_view(await api.flows.task(task_id)))


def _add_detail_routes(router: APIRouter, api: HeadwayApi) -> None:
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
        """List the node runs of a task, in the order in which they ended.

        The list starts after the node run whose `seq` is `after`.
        """
        rows = api.flows.iter_node_runs(task_id, limit=limit + 1, after_seq=after)
        items = ((row.seq, node_run_view(row).encode()) async for row in rows)
        _, texts, has_more = await take_fitting(items, limit=limit)
        node_runs = [cast("Json[NodeRunView]", text.decode()) for text in texts]
        return json_response(encode_node_run_list(node_runs=node_runs, has_more=has_more))

    @router.get(
        "/workers",
        tags=["workers"],
        response_class=Response,
        responses={200: {"model": WorkerList}, **problem_responses()},
    )
    async def list_workers(heard_within_s: HeartbeatWithin = TTL_S) -> Response:
        """List the workers with a recent heartbeat, the least loaded first."""
        workers = await api.workers.list(ttl_s=heard_within_s)
        views = [
            worker_view(
                worker, is_alive=api.workers.is_alive(worker), calls=api.workers.calls_of(worker.id)
            )
            for worker in workers
        ]
        return json_response(encode_worker_list(workers=views))


def _add_signal_routes(router: APIRouter, api: HeadwayApi) -> None:
    async def respond_with_task(task_id: str) -> Response:
        return json_response(task_view(await api.flows.task(task_id)), status=202)

    options: dict[str, Any] = {
        "tags": ["tasks"],
        "response_class": Response,
        "status_code": 202,
        "responses": {
            **success_response(TaskResponse, status=202),
            **problem_responses(404, 409, 429),
        },
    }

    @router.post("/tasks/{task_id}/signal", **options)
    async def signal_task(task_id: NamePath, body: SignalBody, by: Actor) -> Response:
        """Set a key of a task's shared state, and wake the task."""
        await api.flows.signal(task_id, body.key, body.value, by=by)
        return await respond_with_task(task_id)

    @router.post("/tasks/{task_id}/approve", **options)
    async def approve_task(task_id: NamePath, body: ApproveBody, by: Actor) -> Response:
        """Answer the approval that a task waits for. Only the first answer counts."""
        await api.flows.approve(task_id, body.answer, by=by)
        return await respond_with_task(task_id)


def _add_end_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.post(
        "/tasks/{task_id}/cancel",
        tags=["tasks"],
        response_class=Response,
        status_code=202,
        responses={**success_response(TaskCancelView, status=202), **problem_responses(404, 409)},
    )
    async def cancel_task(task_id: NamePath, by: Actor, body: CancelBody | None = None) -> Response:
        """Cancel a task and the tasks that it started.

        `answer` has the same values as when a run is canceled.
        """
        task = await api.flows.task(task_id)
        result = await cancel_run(api.run(task.id), body, by)
        view = task_view(await api.flows.task(task_id))
        return json_response(encode_task_cancel(answer=result, task=view), status=202)

    @router.post("/tasks/{task_id}/rerun", **NEW_TASK_ROUTE)
    async def rerun_task(
        task_id: NamePath, body: RerunBody, by: Actor, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Start a new task at a node of an ended task, with the shared state of the ended task."""
        run = await api.flows.rerun(task_id, body.node, idempotency_key=idempotency_key, by=by)
        return _started_response(await api.flows.task(run.id))


def _started_response(task: TaskView) -> Response:
    return json_response(task_view(task), status=201, location=f"/api/tasks/{task.id}")
