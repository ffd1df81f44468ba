"""The root paths of the first flow centre, for programs that speak its dialect already (R5.6).

A second spelling of the same flows, tasks and workers. Field names of requests are matched
whatever their case; answers are spelt exactly so.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.routing import Route

from headway.api.headway_api import HeadwayApi
from headway.api.http.caller import get_actor
from headway.api.http.cursor import INT32_MAX, take_fitting
from headway.api.http.problem import RETRY_AFTER_S
from headway.api.routes import v1_models as told
from headway.api.wire.flow_bodies import issue_views
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
    """An answer that is not a success: its status and what is said."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **more}


def wire_v1_router(face: HeadwayApi) -> APIRouter:
    router = APIRouter(tags=[told.TAG])
    calls: tuple[tuple[str, tuple[str, ...], CallHandler, told.RouteOptions], ...] = (
        ("POST", ("/workers/register", "/register"), _register, told.REGISTER),
        ("POST", ("/workers/heartbeat", "/heartbeat"), _heartbeat, told.HEARTBEAT),
        ("GET", ("/workers/list", "/list"), _list_workers, told.LIST_WORKERS),
        ("GET", ("/workers/allocate", "/allocate"), _allocate, told.ALLOCATE),
        ("POST", ("/flows",), _create_flow, told.CREATE_FLOW),
        ("POST", ("/flows/version",), _publish, told.PUBLISH),
        ("GET", ("/tasks",), _list_tasks, told.LIST_TASKS),
        ("POST", ("/tasks",), _start_task, told.START_TASK),
        ("GET", ("/tasks/get",), _get_task, told.GET_TASK),
        ("POST", ("/tasks/cancel",), _cancel_task, told.CANCEL_TASK),
        ("POST", ("/tasks/run_once",), _run_once, told.RUN_ONCE),
        ("POST", ("/tasks/signal",), _signal, told.SIGNAL),
        ("GET", ("/tasks/runs",), _list_node_runs, told.NODE_RUNS),
    )
    allowed: dict[str, list[str]] = {}
    for method, paths, call, options in calls:
        for path in paths:
            allowed.setdefault(path, []).append(method)
            name = f"first_centre_{method.lower()}{path.replace('/', '_')}"
            answer = _wrap_call(face, call)
            router.add_api_route(
                path, answer, methods=[method], name=name, response_class=Response, **options
            )
    for path, methods in allowed.items():
        # To whichever method that is left, always the same.
        refusal = _json_response(
            {"error": "method"}, status=405, headers={"allow": ", ".join(methods)}
        )
        router.routes.append(Route(path, refusal))
    return router


def _wrap_call(face: HeadwayApi, call: CallHandler) -> RouteHandler:
    async def answer(request: Request) -> Response:
        try:
            said = await call(face, request)
            return said if isinstance(said, Response) else _json_response(said)
        except WireV1Error as refusal:
            return _json_response(refusal.body, status=refusal.status)
        except InvalidFlow as error:
            return _json_response(
                {"error": str(error), "faults": issue_views(error.errors)}, status=422
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

    return answer


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


async def _register(face: HeadwayApi, request: Request) -> Any:
    given = await _read_fields(request)
    services = given.get("services") or []
    if not isinstance(services, list):
        raise InvalidInput("services", "must be a list")
    await face.workers.register(_require_text(given, "id"), _require_text(given, "url"), services)
    return OK


async def _heartbeat(face: HeadwayApi, request: Request) -> Any:
    given = await _read_fields(request)
    load = given.get("load", 0)
    if not isinstance(load, int | float) or isinstance(load, bool):
        raise InvalidInput("load", "must be a number")
    await face.workers.record_heartbeat(_require_text(given, "id"), int(load))
    return OK


async def _list_workers(face: HeadwayApi, request: Request) -> Any:
    service = request.query_params.get("service") or None
    found = await face.workers.list(service=service, ttl_s=_ttl_s(request))
    return [_worker_fields(one) for one in found]


async def _allocate(face: HeadwayApi, request: Request) -> Any:
    found = await face.workers.list(service=request.query_params.get("service", ""))
    if not found:
        raise WireV1Error(500, "no worker")
    return _worker_fields(found[0])


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


async def _create_flow(face: HeadwayApi, request: Request) -> Any:
    made = await face.flows.create(
        _require_text(await _read_fields(request), "name"), by=get_actor(request.scope)
    )
    return {"id": made.id}


async def _publish(face: HeadwayApi, request: Request) -> Any:
    given = await _read_fields(request)
    flow = await face.flows.get_by_id(_require_text(given, "flowid"))
    version = given.get("version")
    status = given.get("status") or VersionStatus.PUBLISHED
    is_published = status == VersionStatus.PUBLISHED
    published = await face.flows.publish(
        flow.name,
        _require_text(given, "definitionjson"),
        version=version if isinstance(version, int) and 0 < version <= INT32_MAX else None,
        status=VersionStatus.PUBLISHED if is_published else VersionStatus.DRAFT,
        default_policy=ErrorPolicy.FOLLOW_DEFAULT,
        by=get_actor(request.scope),
    )
    answer: dict[str, Any] = {"id": published.version_id}
    if published.unknown_fields:  # Otherwise the answer has its original form.
        answer["warnings"] = issue_views(published.unknown_fields)
    return answer


# Tasks.


async def _start_task(face: HeadwayApi, request: Request) -> Any:
    given = await _read_fields(request)
    flow = await face.flows.get_by_id(_require_text(given, "flowid"))
    if not flow.published:
        raise WireV1Error(400, "no start")
    text = given.get("paramsjson") or "{}"
    if not isinstance(text, str):
        raise InvalidInput("ParamsJSON", "must be a string that holds JSON")
    params = decode_document(text, field="ParamsJSON")
    run = await face.flows.start(flow.name, params=params or {}, by=get_actor(request.scope))
    return {"id": f"{TASK_PREFIX}{run.id}"}


async def _list_tasks(face: HeadwayApi, request: Request) -> Any:
    word = request.query_params.get("status", "")
    statuses = [status for status, words in STATUS_NAMES.items() if words.task == word]
    if word and not statuses:
        return []
    leases = await _load_lease_expiries(face)
    found = face.flows.iter_tasks(TaskFilter(statuses=statuses), limit=TASK_COUNT_MAX)
    texts = ((one.id, _encode_json(_task_fields(one, leases)).encode()) async for one in found)
    _, tasks, _ = await take_fitting(texts, limit=TASK_COUNT_MAX)
    return _raw_response(b"[%b]" % b",".join(tasks))


async def _get_task(face: HeadwayApi, request: Request) -> Any:
    return _task_fields(
        await face.flows.task(_parse_run_id(request, "id")), await _load_lease_expiries(face)
    )


async def _cancel_task(face: HeadwayApi, request: Request) -> Any:
    task = await face.flows.task(_parse_run_id(request, "id"))
    await face.run(task.id).cancel(by=get_actor(request.scope))
    return OK


async def _run_once(face: HeadwayApi, request: Request) -> Any:
    """Whoever is ready is driven at once anyway; one whose time has come is not waited for."""
    task = await face.flows.task(_parse_run_id(request, "id"))
    await face.store.apply(Wake(task.id))
    return OK


async def _signal(face: HeadwayApi, request: Request) -> Any:
    given = await _read_fields(request)
    task_id = to_run_id(_require_text(given, "task_id"))
    if "value" not in given:
        raise InvalidInput("value", "is missing")
    by = get_actor(request.scope)
    await face.flows.signal(task_id, _require_text(given, "key"), given["value"], by=by)
    return OK


class _NodeRunStart(NamedTuple):
    """Where a node run belongs."""

    at: Instant
    seq: int
    path: tuple[str, ...]
    branch: int | None


async def _list_node_runs(face: HeadwayApi, request: Request) -> Any:
    task_id = _parse_run_id(request, "task_id")
    found = face.flows.iter_node_runs(task_id, limit=ROW_COUNT_MAX + 1)
    texts = (
        (
            _NodeRunStart(row.started_at, row.seq, row.path, row.branch),
            _encode_json(_node_run_fields(task_id, row)).encode(),
        )
        async for row in found
    )
    try:
        starts, rows, has_more = await take_fitting(texts, limit=ROW_COUNT_MAX)
    except RunNotFound:
        return []
    headers = {}
    if has_more:
        # An array has no room to say that there is more; and this says where it is.
        rest = f"/api/tasks/{task_id}/node-runs?after={starts[-1].seq}"
        headers["link"] = f'<{rest}>; rel="next"'
    by_seq = {start.seq: text for start, text in zip(starts, rows, strict=True)}
    ordered = b",".join(by_seq[start.seq] for start in _sort_by_start(starts))
    return _raw_response(b"[%b]" % ordered, headers=headers)


def _sort_by_start(starts: Sequence[_NodeRunStart]) -> Iterator[_NodeRunStart]:
    """Sort node runs by their start.

    Branches that started at the same instant are in branch order, not in the order of their ends.
    The node run that gathers branches started with the first of them, but is listed after the last.
    """
    latest: dict[tuple[str, ...], Instant] = {}
    placed: list[_NodeRunStart] = []
    for start in sorted(starts, key=lambda one: one.seq):
        at = start.at
        if start.branch is None:
            # Branches of an earlier visit to the node started earlier, so they do not matter here.
            at = max(at, latest.get(start.path, at))
        else:
            latest[start.path] = max(at, latest.get(start.path, at))
        placed.append(start._replace(at=at))
    for _, together in groupby(sorted(placed), key=lambda start: (start.at, start.path)):
        yield from sorted(together, key=lambda start: (start.branch is None, start.branch or 0))


async def _load_lease_expiries(face: HeadwayApi) -> Mapping[InstanceId, Instant]:
    return {one.id: one.lease_expires_at for one in await face.store.runs.instances()}


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
    """The members of the body, by their names in lower case."""
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
            raise InvalidInput(name, "comes twice, in different spellings")
        fields[name.lower()] = member
    return fields


def _require_text(given: Fields, name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(name, "must be a text")
    return value


def _parse_run_id(request: Request, name: str) -> RunId:
    return to_run_id(request.query_params.get(name, ""))


def _encode_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
