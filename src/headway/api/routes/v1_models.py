"""The OpenAPI descriptions of the v1 API, the root paths of the first flow centre (R5.6).

A response object is described by an example: it has exactly these members, with values of the same
types. A request field without a type accepts any JSON value.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from headway.api.http.responses import JSON_TYPE, RETRY_AFTER_HEADER, problem_responses
from headway.api.wire.api_models import IssueView

TAG: Final = "v1"
Schema = dict[str, Any]
JsonObject = dict[str, Any]
ErrorExamples = Mapping[int, tuple[str, JsonObject]]
"""Error statuses, each with its meaning and an example body."""
RouteOptions = dict[str, Any]
"""Keyword arguments of `APIRouter.add_api_route`."""

_RUN_ID: Final = "0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10"
_EXAMPLE_TIME_S: Final = 1_790_000_000
_DEFINITION: Final = json.dumps(
    {"start": "up", "nodes": {"up": {"kind": "executor", "service": "transform"}}}
)
_WORKER: Final[JsonObject] = {
    "ID": "worker-1",
    "URL": "http://127.0.0.1:8080",
    "Services": ["sum", "transform"],
    "Load": 0,
    "LastHeartbeat": _EXAMPLE_TIME_S,
    "Status": "online",
}
_TASK: Final[JsonObject] = {
    "ID": f"task-{_RUN_ID}",
    "FlowVersionID": "ver-1",
    "Status": "running",
    "ParamsJSON": '{"text":"Hi"}',
    "SharedJSON": "{}",
    "CurrentNodeKey": "up",
    "LastAction": "",
    "StepCount": 0,
    "RetryStateJSON": "{}",
    "LeaseOwner": "instance-1",
    "LeaseExpiry": _EXAMPLE_TIME_S + 10,
    "RequestID": _RUN_ID,
    "CreatedAt": _EXAMPLE_TIME_S,
    "UpdatedAt": _EXAMPLE_TIME_S,
}
_NODE_RUN: Final[JsonObject] = {
    "id": f"run-{_RUN_ID}-1",
    "taskId": f"task-{_RUN_ID}",
    "nodeKey": "up",
    "attemptNo": 1,
    "status": "ok",
    "prepJson": "null",
    "execInputJson": '"Hi"',
    "execOutputJson": '"HI"',
    "errorText": "",
    "action": "default",
    "startedAt": _EXAMPLE_TIME_S,
    "finishedAt": _EXAMPLE_TIME_S,
    "workerId": "worker-1",
    "workerUrl": "http://127.0.0.1:8080",
}
_OK: Final[JsonObject] = {"ok": "1"}


class WireV1ErrorView(BaseModel):
    """An error response in the format of the first flow centre."""

    model_config = ConfigDict(extra="forbid")

    error: str
    detail: str | None = Field(None, description="The problem and its field.")
    errors: list[IssueView] | None = Field(
        None, description="All errors of a definition, each with its path."
    )


# Building blocks.

_TEXT: Final[Schema] = {"type": "string"}
_ALLOW: Final = {"Allow": {"description": "The allowed methods.", "schema": _TEXT}}
_HEADERS: Final = {405: _ALLOW, 429: RETRY_AFTER_HEADER}
_COMMON_ERRORS: Final[ErrorExamples] = {
    400: (
        "The request is invalid.",
        {"error": "bad request", "detail": "id: must be a non-empty string"},
    ),
    405: ("The path has no such method.", {"error": "method"}),
}


def _type_schema(value: Any) -> Schema:
    if isinstance(value, list):
        return {"type": "array", "items": _type_schema(value[0])}
    return {"type": "string" if isinstance(value, str) else "integer"}


def _exact_schema(example: JsonObject | list[JsonObject]) -> Schema:
    if isinstance(example, list):
        return {"type": "array", "items": _exact_schema(example[0])}
    return {
        "type": "object",
        "required": list(example),
        "properties": {name: _type_schema(value) for name, value in example.items()},
        "additionalProperties": False,
    }


def _describe_responses(
    example: JsonObject | list[JsonObject], errors: ErrorExamples, optional: Schema
) -> dict[int | str, dict[str, Any]]:
    schema = _exact_schema(example)
    if optional:
        schema["properties"] |= optional
    responses: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "Done.",
            "content": {JSON_TYPE: {"schema": schema, "example": example}},
        },
        **problem_responses(),  # The guard answers with problems on all paths.
    }
    for status, (meaning, error) in {**_COMMON_ERRORS, **errors}.items():
        shared = responses.get(status, {"headers": _HEADERS.get(status, {})})
        content = {JSON_TYPE: {"example": error}, **shared.get("content", {})}
        own = {"description": meaning, "content": content, "model": WireV1ErrorView}
        responses[status] = {**shared, **own}
    return responses


def _describe_call(
    description: str,
    example: JsonObject | list[JsonObject],
    errors: ErrorExamples | None = None,
    optional: Schema | None = None,
    **extra: Any,
) -> RouteOptions:
    """Return the route options of a call. The first sentence of `description` is the summary.

    `optional` are members that the response may have in addition to those of `example`.
    """
    return {
        "summary": description.partition(".")[0],
        "description": description,
        "responses": _describe_responses(example, errors or {}, optional or {}),
        "openapi_extra": extra,
    }


def _query_parameter(name: str, example: str, description: str) -> Schema:
    """Describe a query parameter. It is optional: if absent, it counts as an empty string."""
    return {
        "in": "query",
        "name": name,
        "schema": _TEXT,
        "example": example,
        "description": description,
    }


def _request_body(texts: Mapping[str, str], **others: Schema) -> Schema:
    """Describe a request body.

    `texts` maps the names of required strings to their examples. `others` are the other fields. A
    field of `others` is required if it has no description.
    """
    strings = {
        name: {**_TEXT, "minLength": 1, "examples": [example]} for name, example in texts.items()
    }
    required = [name for name, field in others.items() if "description" not in field]
    schema = {
        "type": "object",
        "required": [*texts, *required],
        "properties": {**strings, **others},
    }
    return {
        "required": True,
        "description": "Field names are matched case-insensitively. Unknown fields are ignored.",
        "content": {JSON_TYPE: {"schema": schema}},
    }


def _untyped_field(example: Any, description: str) -> Schema:
    return {"description": description, "examples": [example]}


# Calls.

_NOT_FOUND: Final[ErrorExamples] = {404: ("The id is unknown.", {"error": "not found"})}
_CONFLICT: Final[ErrorExamples] = {
    409: ("The request conflicts with the current state.", {"error": "key 'ann' is locked"})
}
_TOO_MANY: Final[ErrorExamples] = {429: ("A limit is reached.", {"error": "lane 'flow' is full"})}
_ISSUES: Final = [{"path": "start", "problem": "names no node"}]
_WARNINGS: Final[Schema] = {
    "type": "array",
    "description": "Unknown fields of the definition, which have no effect; absent if there are"
    " none. Fields of other dialects that would change its meaning are refused with 422.",
    "items": {
        "type": "object",
        "required": ["path", "problem"],
        "properties": {"path": _TEXT, "problem": _TEXT},
        "additionalProperties": False,
    },
}
_INVALID_DEFINITION: Final[ErrorExamples] = {
    422: ("The definition is invalid.", {"error": "start: names no node", "errors": _ISSUES})
}
_NO_START: Final[ErrorExamples] = {
    400: ("The request is invalid, or no version is published.", {"error": "no start"})
}
_NO_WORKER: Final[ErrorExamples] = {
    500: ("No live worker offers the service.", {"error": "no worker"})
}
_TASK_ID: Final = f"task-{_RUN_ID}"
_ID_PARAMETERS: Final = [_query_parameter("id", _TASK_ID, "The id of the task.")]
_SERVICE_PARAMETER: Final = _query_parameter(
    "service", "transform", "A service that the worker offers."
)

REGISTER: Final = _describe_call(
    "Register a worker. It counts as alive, with load 0. A repeated registration replaces it.",
    _OK,
    requestBody=_request_body(
        {"id": "worker-1", "url": "http://127.0.0.1:8080"},
        services=_untyped_field(["sum", "transform"], "A list of service names."),
    ),
)
HEARTBEAT: Final = _describe_call(
    "Send the heartbeat of a worker. The heartbeat of an unknown worker gets the same response.",
    _OK,
    requestBody=_request_body(
        {"id": "worker-1"},
        url=_untyped_field(
            "http://127.0.0.1:8080", "Ignored: the URL of the registration is used."
        ),
        load={"type": "number", "description": "Number of calls in flight.", "examples": [0]},
    ),
)
LIST_WORKERS: Final = _describe_call(
    "List workers. Only those with a recent heartbeat, the least load first.",
    [_WORKER],
    parameters=[
        _SERVICE_PARAMETER,
        _query_parameter(
            "ttl", "15", "Maximum age of the last heartbeat in seconds. 15 if it is not a number."
        ),
    ],
)
ALLOCATE: Final = _describe_call(
    "Choose a worker. It is the live one with the least load.",
    _WORKER,
    _NO_WORKER,
    parameters=[_SERVICE_PARAMETER],
)
CREATE_FLOW: Final = _describe_call(
    "Create a flow. It gets an id of its own, even if the name exists, and has no version yet.",
    {"id": "flow-1"},
    _CONFLICT,
    requestBody=_request_body({"Name": "shouting"}),
)
PUBLISH: Final = _describe_call(
    "Publish a version of a flow. New tasks use the latest one.",
    {"id": "ver-1"},
    {**_NOT_FOUND, **_CONFLICT, **_INVALID_DEFINITION},
    optional={"warnings": _WARNINGS},
    requestBody=_request_body(
        {"FlowID": "flow-1", "DefinitionJSON": _DEFINITION},
        Version=_untyped_field(1, "An integer from 1. Any other value means the next version."),
        Status=_untyped_field(
            "published", "`published`, which is the default. Any other value creates a draft."
        ),
    ),
)
START_TASK: Final = _describe_call(
    "Start a task. It uses the latest published version.",
    {"id": _TASK_ID},
    {**_NO_START, **_NOT_FOUND, **_CONFLICT, **_TOO_MANY},
    requestBody=_request_body(
        {"FlowID": "flow-1"},
        Version=_untyped_field(1, "Ignored: the latest published version is used."),
        ParamsJSON=_untyped_field('{"text":"Hi"}', "A string that contains JSON."),
    ),
)
LIST_TASKS: Final = _describe_call(
    "List tasks. The last updated first, at most 100.",
    [_TASK],
    parameters=[
        _query_parameter(
            "status", "running", "`pending`, `running`, `completed` … All tasks if it is absent."
        )
    ],
)
GET_TASK: Final = _describe_call(
    "Get a task. Its state is the current one.", _TASK, _NOT_FOUND, parameters=_ID_PARAMETERS
)
CANCEL_TASK: Final = _describe_call(
    "Cancel a task. A task that has ended does not change.",
    _OK,
    {**_NOT_FOUND, **_CONFLICT},
    parameters=_ID_PARAMETERS,
)
RUN_ONCE: Final = _describe_call(
    "Advance a task by one step. A task that an instance holds advances by itself.",
    _OK,
    {**_NOT_FOUND, **_CONFLICT},
    parameters=_ID_PARAMETERS,
)
SIGNAL: Final = _describe_call(
    "Signal a task. `value` is set in its shared state under `key`, and the task wakes up.",
    _OK,
    {**_NOT_FOUND, **_CONFLICT, **_TOO_MANY},
    requestBody=_request_body({"task_id": _TASK_ID, "key": "go"}, value={"examples": [True]}),
)
NODE_RUNS: Final = _describe_call(
    "List the node runs of a task. In order of their starts. Empty for an unknown task.",
    [_NODE_RUN],
    parameters=[_query_parameter("task_id", _TASK_ID, "The id of the task.")],
)
# The body is an array, so a header leads to the rest.
NODE_RUNS["responses"][200]["headers"] = {
    "Link": {"description": '`rel="next"`: the node runs that did not fit.', "schema": _TEXT}
}
