"""`/api/flows`, `/api/tasks` and `/api/workers`: flows in headway's own manner."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Path, Query, Request, Response

from headway.api.answers import StrictRoute, json_answer, problems
from headway.api.face import Face
from headway.api.flow_answers import (
    CheckView,
    FlowDetailView,
    FlowList,
    NodeRunList,
    PublishedView,
    TaskList,
    TaskView,
    VersionList,
    WorkerList,
)
from headway.api.flow_bodies import (
    ApproveBody,
    RerunBody,
    SignalBody,
    TaskBody,
    encoded,
    fault_views,
    flow_view,
    node_run_view,
    task_view,
    worker_view,
)
from headway.api.problem import Problem
from headway.api.wire import CancelBody, Name, Seconds, Status
from headway.core.errors import InvalidFlow
from headway.core.run.status import RunStatus
from headway.core.worker.worker import TTL_S
from headway.services.flow.task_view import ROW_COUNT_MAX

PAGE_COUNT_MAX: Final = 1_000
NamePath = Annotated[Name, Path()]
Limit = Annotated[int, Query(ge=1, le=PAGE_COUNT_MAX)]
Version = Annotated[int | None, Query(ge=1)]
HeardWithin = Annotated[Seconds, Query(description="The silent ones too, if it is long ago.")]
IfMatch = Annotated[str | None, Header(max_length=100, description='A revision: `"3"`.')]


def flows_router(face: Face) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _definitions(router, face)
    _publishing(router, face)
    _versions(router, face)
    _tasks(router, face)
    _details(router, face)
    _steering(router, face)
    return router


def _definitions(router: APIRouter, face: Face) -> None:
    @router.get(
        "/flows",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": FlowList}, **problems()},
    )
    async def list_flows(
        limit: Limit = 100, after: Annotated[Name | None, Query()] = None
    ) -> Response:
        """The flows, by name."""
        found = await face.flows.list(limit=limit, after=after or "")
        return json_answer(encoded({"flows": [flow_view(one) for one in found]}))

    @router.get("/flow-schema", tags=["flows"], response_class=Response, responses=problems())
    async def flow_schema() -> Response:
        """A JSON Schema of definitions, for editors."""
        return json_answer(encoded(face.flows.schema()))


def _publishing(router: APIRouter, face: Face) -> None:
    @router.post(
        "/flow-check",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": CheckView}, **problems(body=True)},
    )
    async def check_flow(request: Request) -> Response:
        """Whether the definition in the body could be published; what is suspicious about it."""
        try:
            warnings = await face.flows.validate(await _text(request))
        except InvalidFlow as error:
            raise _faulty(error) from None
        return json_answer(encoded({"warnings": fault_views(warnings)}))

    @router.put(
        "/flows/{name}",
        tags=["flows"],
        response_class=Response,
        responses={
            200: {"model": PublishedView},
            201: {"model": PublishedView},
            **problems(412, body=True),
        },
    )
    async def publish_flow(name: NamePath, request: Request, if_match: IfMatch = None) -> Response:
        """Publish the definition in the body as the newest version; tasks keep theirs."""
        try:
            made = await face.flows.publish(
                name, await _text(request), expected_revision=_revision(if_match)
            )
        except InvalidFlow as error:
            raise _faulty(error) from None
        body = {
            "name": made.name,
            "id": made.id,
            "version": made.version,
            "version_id": made.version_id,
            "revision": made.revision,
            "etag": made.etag,
            "is_new": made.is_new,
            "warnings": fault_views(made.warnings),
        }
        status = 201 if made.is_new else 200
        return json_answer(encoded(body), status=status, etag=f'"{made.revision}"')


def _versions(router: APIRouter, face: Face) -> None:
    @router.get(
        "/flows/{name}",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": FlowDetailView}, **problems(404)},
    )
    async def get_flow(name: NamePath, version: Version = None) -> Response:
        """A flow with the definition of its published version, or of another."""
        flow = await face.flows.get(name)
        head = encoded(flow_view(flow))[:-1]
        definition, warnings = "null", "[]"
        if version is not None or flow.published:
            definition = (await face.flows.version(name, version)).definition
            warnings = encoded(fault_views(await face.flows.validate(definition)))
        text = f'{head},"definition":{definition},"warnings":{warnings}}}'
        return json_answer(text, etag=f'"{flow.revision}"')

    @router.get(
        "/flows/{name}/versions",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": VersionList}, **problems(404)},
    )
    async def list_versions(name: NamePath, limit: Limit = 100) -> Response:
        """The newest first."""
        found = await face.flows.versions(name, limit=limit)
        views = [
            {"version": one.version, "id": one.id, "status": one.status, "etag": one.etag}
            for one in found
        ]
        return json_answer(encoded({"versions": views}))

    @router.get(
        "/flows/{name}/graph", tags=["flows"], response_class=Response, responses=problems(404)
    )
    async def flow_graph(name: NamePath, version: Version = None) -> Response:
        """A Mermaid diagram."""
        return Response(await face.flows.graph(name, version), media_type="text/plain")


def _tasks(router: APIRouter, face: Face) -> None:
    @router.post(
        "/flows/{name}/tasks",
        tags=["tasks"],
        response_class=Response,
        status_code=201,
        responses={201: {"model": TaskView}, **problems(404, 409, 429, body=True)},
    )
    async def start_task(name: NamePath, body: TaskBody) -> Response:
        """Start a task of the flow."""
        run = await face.flows.start(
            name,
            params=body.params,
            version=body.version,
            key=body.key,
            lane=body.lane,
            timeout_s=body.timeout_s,
            queue_timeout_s=body.queue_timeout_s,
        )
        return json_answer(encoded(task_view(await face.flows.task(run.id))), status=201)

    @router.get(
        "/tasks",
        tags=["tasks"],
        response_class=Response,
        responses={200: {"model": TaskList}, **problems()},
    )
    async def list_tasks(
        status: Annotated[Status | None, Query()] = None,
        flow: Annotated[Name | None, Query()] = None,
        waits_for: Annotated[Name | None, Query(description="Such as `approval`.")] = None,
        limit: Limit = 100,
    ) -> Response:
        """Those that moved last come first."""
        statuses = [] if status is None else [RunStatus(status)]
        found = await face.flows.tasks(
            statuses=statuses, flow=flow, waits_for=waits_for, limit=limit
        )
        return json_answer(encoded({"tasks": [task_view(one) for one in found]}))

    @router.get(
        "/tasks/{task_id}",
        tags=["tasks"],
        response_class=Response,
        responses={200: {"model": TaskView}, **problems(404)},
    )
    async def get_task(task_id: NamePath) -> Response:
        """A task: where it is, what it waits for, and its shared state."""
        return json_answer(encoded(task_view(await face.flows.task(task_id))))


def _details(router: APIRouter, face: Face) -> None:
    @router.get(
        "/tasks/{task_id}/node-runs",
        tags=["tasks"],
        response_class=Response,
        responses={200: {"model": NodeRunList}, **problems(404)},
    )
    async def list_node_runs(
        task_id: NamePath,
        after: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=ROW_COUNT_MAX)] = PAGE_COUNT_MAX,
    ) -> Response:
        """What its nodes have done, in the order of their ends; `after` is a `seq`."""
        rows = await face.flows.node_runs(task_id, limit=limit, after_seq=after)
        return json_answer(encoded({"node_runs": [node_run_view(row) for row in rows]}))

    @router.get(
        "/workers",
        tags=["workers"],
        response_class=Response,
        responses={200: {"model": WorkerList}, **problems()},
    )
    async def list_workers(heard_within_s: HeardWithin = TTL_S) -> Response:
        """Those that were heard of so lately, the least load first; else only the live ones."""
        found = await face.workers.list(ttl_s=heard_within_s)
        views = [
            worker_view(
                one, is_alive=face.workers.is_alive(one), calls=face.workers.calls_of(one.id)
            )
            for one in found
        ]
        return json_answer(encoded({"workers": views}))


def _steering(router: APIRouter, face: Face) -> None:
    async def shown(task_id: str, status: int) -> Response:
        return json_answer(encoded(task_view(await face.flows.task(task_id))), status=status)

    refusals = problems(404, 409, 429, body=True)
    steering: dict[str, Any] = {
        "tags": ["tasks"],
        "response_class": Response,
        "status_code": 202,
        "responses": {202: {"model": TaskView}, **refusals},
    }
    starting = {**steering, "status_code": 201, "responses": {201: {"model": TaskView}, **refusals}}

    @router.post("/tasks/{task_id}/signal", **steering)
    async def signal_task(task_id: NamePath, body: SignalBody) -> Response:
        """Set a key of the task's shared state, and wake it."""
        await face.flows.signal(task_id, body.key, body.value)
        return await shown(task_id, 202)

    @router.post("/tasks/{task_id}/approve", **steering)
    async def approve_task(task_id: NamePath, body: ApproveBody) -> Response:
        """Answer the approval that it waits for; the first answer stands."""
        await face.flows.approve(task_id, body.answer)
        return await shown(task_id, 202)

    @router.post("/tasks/{task_id}/cancel", **steering)
    async def cancel_task(task_id: NamePath, body: CancelBody) -> Response:
        """Ask for its end, and for that of all it has started. One that is over stays as it is."""
        task = await face.flows.task(task_id)
        await face.run(task.id).cancel(reason=body.reason)
        return await shown(task_id, 202)

    @router.post("/tasks/{task_id}/rerun", **starting)
    async def rerun_task(task_id: NamePath, body: RerunBody) -> Response:
        """A new task that begins at a node, with the shared state of this one."""
        run = await face.flows.rerun(task_id, body.node)
        return await shown(run.id, 201)


async def _text(request: Request) -> str:
    """The body as it is: a definition may be nested deeper than other documents."""
    try:
        return (await request.body()).decode()
    except UnicodeDecodeError:
        raise Problem(422, "invalid_input", "body: is not UTF-8", {"place": "body"}) from None


def _faulty(error: InvalidFlow) -> Problem:
    faults = [{"place": place, "problem": problem} for place, problem in error.faults]
    return Problem(422, "invalid_flow", str(error), {"place": error.place, "faults": faults})


def _revision(if_match: str | None) -> int | None:
    if if_match is None:
        return None
    number = if_match.strip('"')
    if not number.isdecimal() or len(number) > 18:
        problem = 'If-Match: must be a revision, such as "3"'
        raise Problem(422, "invalid_input", problem, {"place": "If-Match"})
    return int(number)
