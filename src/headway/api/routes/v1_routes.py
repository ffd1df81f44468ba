"""The v1 API: the root paths of the first flow centre, for its existing clients (R5.6).

It gives access to the same flows, tasks and workers as `/api`. Field names of requests are matched
case-insensitively. Responses have exactly the field names of the first flow centre.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.routing import Route

from headway.api.headway_api import HeadwayApi
from headway.api.http.cursor import INT32_MAX, take_fitting
from headway.api.http.problem import RETRY_AFTER_S, issue_views
from headway.api.http.request import get_actor
from headway.api.routes import v1_models as models
from headway.core.command.run.wait import Wake
from headway.core.document import decode_document
from headway.core.errors import (
    Error,
    FlowNotFound,
    InboxOverflow,
    InfrastructureError,
    InvalidFlow,
    InvalidInput,
    LaneFull,
    RunNotActive,
    RunNotFound,
)
from headway.core.flow.definition.definition import ErrorPolicy
from headway.core.flow.engine.records import TASK_PREFIX, VersionStatus, to_run_id
from headway.core.flow.engine.state import NodeRun
from headway.core.ids import SECOND_US, InstanceId, Instant, RunId
from headway.core.run.status import STATUS_NAMES, RunStatus
from headway.core.secret import redact_value
from headway.core.worker.saved_worker import TTL_S, LiveWorker
from headway.ports.flow_reader import TaskFilter
from headway.services.flow.task_view import ROW_COUNT_MAX, TaskView

TASK_COUNT_MAX: Final = 100
TTL_S_MAX: Final = 86_400.0
Fields = Mapping[str, Any]
CallHandler = Callable[[HeadwayApi, Request], Awaitable[Any]]
RouteHandler = Callable[[Request], Awaitable[Response]]


class WireV1Error(Exception):
    """Raised by a call of the v1 API to answer with an error status and an error text."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error}


def wire_v1_router(api: HeadwayApi) -> APIRouter:
    router = APIRouter(tags=[models.TAG])
    calls: tuple[tuple[str, tuple[str, ...], CallHandler, models.RouteOptions], ...] = (
        ("POST", ("/workers/register", "/register"), _register, models.REGISTER),
        ("POST", ("/workers/heartbeat", "/heartbeat"), _heartbeat, models.HEARTBEAT),
        ("GET", ("/workers/list", "/list"), _list_workers, models.LIST_WORKERS),
        ("GET", ("/workers/allocate", "/allocate"), _allocate, models.ALLOCATE),
        ("POST", ("/flows",), _create_flow, models.CREATE_FLOW),
        ("POST", ("/flows/version",), _publish, models.PUBLISH),
        ("GET", ("/tasks",), _list_tasks, models.LIST_TASKS),
        ("POST", ("/tasks",), _start_task, models.START_TASK),
        ("GET", ("/tasks/get",), _get_task, models.GET_TASK),
        ("POST", ("/tasks/cancel",), _cancel_task, models.CANCEL_TASK),
        ("POST", ("/tasks/run_once",), _run_once, models.RUN_ONCE),
        ("POST", ("/tasks/signal",), _signal, models.SIGNAL),
        ("GET", ("/tasks/runs",), _list_node_runs, models.NODE_RUNS),
    )
    allowed: dict[str, list[str]] = {}
    for method, paths, call, options in calls:
        for path in paths:
            allowed.setdefault(path, []).append(method)
            name = f"v1_{method.lower()}{path.replace('/', '_')}"
            handler = _wrap_call(api, call)
            router.add_api_route(
                path, handler, methods=[method], name=name, response_class=Response, **options
            )
    for path, methods in allowed.items():
        # All other methods get the same response.
        method_error = _json_response(
            {"error": "method"}, status=405, headers={"allow": ", ".join(methods)}
        )
        router.routes.append(Route(path, method_error))
    return router


def _wrap_call(api: HeadwayApi, call: CallHandler) -> RouteHandler:
    async def handle(request: Request) -> Response:
        try:
            result = await call(api, request)
            return result if isinstance(result, Response) else _json_response(result)
        except WireV1Error as error:
            return _json_response(error.body, status=error.status)
        except InvalidFlow as error:
            return _json_response(
                {"error": str(error), "errors": issue_views(error.errors)}, status=422
            )
        except (RunNotFound, RunNotActive, FlowNotFound):
            return _json_response({"error": "not found"}, status=404)
        except InvalidInput as error:
            return _json_response({"error": "bad request", "detail": str(error)}, status=400)
        except (LaneFull, InboxOverflow) as error:
            retry = {"retry-after": str(RETRY_AFTER_S)}
            return _json_response({"error": str(error)}, status=429, headers=retry)
        except InfrastructureError:
            raise
        except Error as error:
            return _json_response({"error": str(error)}, status=409)

    return handle


def _json_response(
    body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return _raw_response(_encode_json(body).encode(), status=status, headers=headers)


def _raw_response(
    text: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(text, status_code=status, media_type="application/json", headers=headers)


OK: Final = {"ok": "1"}

# Workers.


async def _register(api: HeadwayApi, request: Request) -> Any:
    fields = await _read_fields(request)
    services = fields.get("services") or []
    if not isinstance(services, list):
        raise InvalidInput("services", "must be a list")
    await api.workers.register(_require_text(fields, "id"), _require_text(fields, "url"), services)
    return OK


async def _heartbeat(api: HeadwayApi, request: Request) -> Any:
    fields = await _read_fields(request)
    load = fields.get("load", 0)
    if not isinstance(load, int | float) or isinstance(load, bool):
        raise InvalidInput("load", "must be a number")
    await api.workers.record_heartbeat(_require_text(fields, "id"), int(load))
    return OK


async def _list_workers(api: HeadwayApi, request: Request) -> Any:
    service = request.query_params.get("service") or None
    workers = await api.workers.list(service=service, ttl_s=_ttl_s(request))
    return [_worker_fields(worker) for worker in workers]


async def _allocate(api: HeadwayApi, request: Request) -> Any:
    workers = await api.workers.list(service=request.query_params.get("service", ""))
    if not workers:
        raise WireV1Error(500, "no worker")
    return _worker_fields(workers[0])


def _ttl_s(request: Request) -> float:
    try:
        ttl_s = float(request.query_params.get("ttl", TTL_S))
    except ValueError:
        return TTL_S
    return ttl_s if 0 <= ttl_s <= TTL_S_MAX else TTL_S


def _worker_fields(worker: LiveWorker) -> Fields:
    return {
        "ID": worker.id,
        "URL": worker.url,
        "Services": sorted(worker.services),
        "Load": worker.load,
        "LastHeartbeat": worker.heartbeat_at // SECOND_US,
        "Status": "online",
    }


# Flows.


async def _create_flow(api: HeadwayApi, request: Request) -> Any:
    flow = await api.flows.create(
        _require_text(await _read_fields(request), "name"), by=get_actor(request.scope)
    )
    return {"id": flow.id}


async def _publish(api: HeadwayApi, request: Request) -> Any:
    fields = await _read_fields(request)
    flow = await api.flows.get_by_id(_require_text(fields, "flowid"))
    version = fields.get("version")
    status = fields.get("status") or VersionStatus.PUBLISHED
    is_published = status == VersionStatus.PUBLISHED
    published = await api.flows.publish(
        flow.name,
        _require_text(fields, "definitionjson"),
        version=version if isinstance(version, int) and 0 < version <= INT32_MAX else None,
        status=VersionStatus.PUBLISHED if is_published else VersionStatus.DRAFT,
        default_policy=ErrorPolicy.FOLLOW_DEFAULT,
        by=get_actor(request.scope),
    )
    body: dict[str, Any] = {"id": published.version_id}
    if published.unknown_fields:  # Otherwise the response has its original form.
        body["warnings"] = issue_views(published.unknown_fields)
    return body


# Tasks.


async def _start_task(api: HeadwayApi, request: Request) -> Any:
    fields = await _read_fields(request)
    flow = await api.flows.get_by_id(_require_text(fields, "flowid"))
    if not flow.published:
        raise WireV1Error(400, "no start")
    text = fields.get("paramsjson") or "{}"
    if not isinstance(text, str):
        raise InvalidInput("ParamsJSON", "must be a string that contains JSON")
    params = decode_document(text, field="ParamsJSON")
    run = await api.flows.start(flow.name, params=params or {}, by=get_actor(request.scope))
    return {"id": f"{TASK_PREFIX}{run.id}"}


async def _list_tasks(api: HeadwayApi, request: Request) -> Any:
    task_status = request.query_params.get("status", "")
    statuses = [status for status, names in STATUS_NAMES.items() if names.task == task_status]
    if task_status and not statuses:
        return []
    leases = await _load_lease_expiries(api)
    tasks = api.flows.iter_tasks(TaskFilter(statuses=statuses), limit=TASK_COUNT_MAX)
    items = ((task.id, _encode_json(_task_fields(task, leases)).encode()) async for task in tasks)
    _, texts, _ = await take_fitting(items, limit=TASK_COUNT_MAX)
    return _raw_response(b"[%b]" % b",".join(texts))


async def _get_task(api: HeadwayApi, request: Request) -> Any:
    return _task_fields(
        await api.flows.task(_parse_run_id(request, "id")), await _load_lease_expiries(api)
    )


async def _cancel_task(api: HeadwayApi, request: Request) -> Any:
    task = await api.flows.task(_parse_run_id(request, "id"))
    await api.run(task.id).cancel(by=get_actor(request.scope))
    return OK


async def _run_once(api: HeadwayApi, request: Request) -> Any:
    """Wake a task that waits for a time. A task that is ready advances without this call."""
    task = await api.flows.task(_parse_run_id(request, "id"))
    await api.store.apply(Wake(task.id))
    return OK


async def _signal(api: HeadwayApi, request: Request) -> Any:
    fields = await _read_fields(request)
    task_id = to_run_id(_require_text(fields, "task_id"))
    if "value" not in fields:
        raise InvalidInput("value", "is missing")
    by = get_actor(request.scope)
    await api.flows.signal(task_id, _require_text(fields, "key"), fields["value"], by=by)
    return OK


class _NodeRunStart(NamedTuple):
    """The start of a node run, for sorting. Fields are in the order of comparison."""

    at: Instant
    seq: int
    path: tuple[str, ...]
    branch: int | None


async def _list_node_runs(api: HeadwayApi, request: Request) -> Any:
    task_id = _parse_run_id(request, "task_id")
    node_runs = api.flows.iter_node_runs(task_id, limit=ROW_COUNT_MAX + 1)
    items = (
        (
            _NodeRunStart(row.started_at, row.seq, row.path, row.branch),
            _encode_json(_node_run_fields(task_id, row)).encode(),
        )
        async for row in node_runs
    )
    try:
        starts, texts, has_more = await take_fitting(items, limit=ROW_COUNT_MAX)
    except RunNotFound:
        return []
    headers = {}
    if has_more:
        # The body is an array, so a header leads to the rest.
        rest = f"/api/tasks/{task_id}/node-runs?after={starts[-1].seq}"
        headers["link"] = f'<{rest}>; rel="next"'
    by_seq = {start.seq: text for start, text in zip(starts, texts, strict=True)}
    ordered = b",".join(by_seq[start.seq] for start in _sort_by_start(starts))
    return _raw_response(b"[%b]" % ordered, headers=headers)


def _sort_by_start(starts: Sequence[_NodeRunStart]) -> Iterator[_NodeRunStart]:
    """Sort node runs by their start.

    Branches that started at the same instant are in branch order, not in the order in which they
    ended. The node run that gathers branches started with the first branch, but it is listed after
    the last branch.
    """
    latest: dict[tuple[str, ...], Instant] = {}
    placed: list[_NodeRunStart] = []
    for start in sorted(starts, key=lambda start: start.seq):
        at = start.at
        if start.branch is None:
            # Branches of an earlier visit to the node started earlier, so they do not matter here.
            at = max(at, latest.get(start.path, at))
        else:
            latest[start.path] = max(at, latest.get(start.path, at))
        placed.append(start._replace(at=at))
    for _, together in groupby(sorted(placed), key=lambda start: (start.at, start.path)):
        yield from sorted(together, key=lambda start: (start.branch is None, start.branch or 0))


async def _load_lease_expiries(api: HeadwayApi) -> Mapping[InstanceId, Instant]:
    instances = await api.store.runs.instances()
    return {instance.id: instance.lease_expires_at for instance in instances}


def _task_fields(task: TaskView, leases: Mapping[InstanceId, Instant]) -> Fields:
    run = task.run
    expires_at = None if run.instance_id is None else leases.get(run.instance_id)
    return {
        "ID": f"{TASK_PREFIX}{run.id}",
        "FlowVersionID": task.version_id,
        "Status": STATUS_NAMES[run.status].task,
        "ParamsJSON": _encode_json(redact_value(task.params)),
        "SharedJSON": _encode_json(redact_value(task.shared)),
        "CurrentNodeKey": "" if run.status is RunStatus.SUCCEEDED else task.node,
        "LastAction": task.last_action,
        "StepCount": task.step_count,
        "RetryStateJSON": _encode_json(task.retry_state),
        "LeaseOwner": run.instance_id or "",
        "LeaseExpiry": 0 if expires_at is None else expires_at // SECOND_US,
        "RequestID": str(run.id),
        "CreatedAt": run.queued_at // SECOND_US,
        "UpdatedAt": task.updated_at // SECOND_US,
    }


def _node_run_fields(task_id: RunId, row: NodeRun) -> Fields:
    return {
        "id": f"run-{task_id}-{row.seq}",
        "taskId": f"{TASK_PREFIX}{task_id}",
        "nodeKey": row.node_key,
        "attemptNo": row.attempt,
        "status": row.status.value,
        "prepJson": _encode_json(redact_value(row.prep)),
        "execInputJson": _encode_json(redact_value(row.input)),
        "execOutputJson": _encode_json(redact_value(row.output)),
        "errorText": row.error,
        "action": row.action,
        "startedAt": row.started_at // SECOND_US,
        "finishedAt": row.finished_at // SECOND_US,
        "workerId": "" if row.worker is None else row.worker.id,
        "workerUrl": "" if row.worker is None else row.worker.url,
    }


# Requests.


async def _read_fields(request: Request) -> Fields:
    """Return the members of a JSON body, with their names converted to lower case."""
    try:
        body = (await request.body()).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("body", f"is not UTF-8 at byte {error.start:,}") from None
    value = decode_document(body, field="body")
    if not isinstance(value, dict):
        raise InvalidInput("body", "must be an object")
    fields: dict[str, Any] = {}
    for name, member in value.items():
        if name.lower() in fields:
            raise InvalidInput(name, "occurs twice; upper and lower case do not distinguish names")
        fields[name.lower()] = member
    return fields


def _require_text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(name, "must be a non-empty string")
    return value


def _parse_run_id(request: Request, name: str) -> RunId:
    return to_run_id(request.query_params.get(name, ""))


def _encode_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
