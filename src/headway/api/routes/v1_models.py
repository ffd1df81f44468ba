"""The root paths of the first flow centre, as the OpenAPI document tells of them (R5.6).

An object is told by an example: an answer has all of its members, of those kinds, and no others.
What a request may say in any way at all is told without a kind: nothing is refused there.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from headway.api.http.responses import JSON_TYPE, RETRY_AFTER_HEADER, problem_responses
from headway.api.wire.api_models import IssueView

TAG: Final = "first-centre"
Schema = dict[str, Any]
JsonObject = dict[str, Any]
ErrorExamples = Mapping[int, tuple[str, JsonObject]]
"""What each status means, and an example of what is said."""
RouteOptions = dict[str, Any]
"""Of a route."""

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
    """Why something is not done, in the words of the first flow centre."""

    model_config = ConfigDict(extra="forbid")

    error: str
    detail: str | None = Field(None, description="What is wrong, and where.")
    faults: list[IssueView] | None = Field(
        None, description="All that is wrong with a definition, each by its place."
    )


# How they are put together.

_TEXT: Final[Schema] = {"type": "string"}
_ALLOW: Final = {"Allow": {"description": "The methods that there are.", "schema": _TEXT}}
_HEADERS: Final = {405: _ALLOW, 429: RETRY_AFTER_HEADER}
_COMMON_ERRORS: Final[ErrorExamples] = {
    400: ("The request cannot be taken.", {"error": "bad request", "detail": "id: must be a text"}),
    405: ("The path has no such method.", {"error": "method"}),
}


def _type_schema(value: Any) -> Schema:
    if isinstance(value, list):
        return {"type": "array", "items": _type_schema(value[0])}
    return {"type": "string" if isinstance(value, str) else "integer"}


def _exact_schema(said: JsonObject | list[JsonObject]) -> Schema:
    if isinstance(said, list):
        return {"type": "array", "items": _exact_schema(said[0])}
    return {
        "type": "object",
        "required": list(said),
        "properties": {name: _type_schema(value) for name, value in said.items()},
        "additionalProperties": False,
    }


def _describe_responses(
    said: JsonObject | list[JsonObject], refusals: ErrorExamples, optional: Schema
) -> dict[int | str, dict[str, Any]]:
    schema = _exact_schema(said)
    if optional:
        schema["properties"] |= optional
    done = {JSON_TYPE: {"schema": schema, "example": said}}
    # What the guard refuses it refuses everywhere in the same words.
    told: dict[int | str, dict[str, Any]] = {
        200: {"description": "Done.", "content": done},
        **problem_responses(),
    }
    for status, (meaning, error) in {**_COMMON_ERRORS, **refusals}.items():
        others = told.get(status, {"headers": _HEADERS.get(status, {})})
        content = {JSON_TYPE: {"example": error}, **others.get("content", {})}
        more = {"description": meaning, "content": content, "model": WireV1ErrorView}
        told[status] = {**others, **more}
    return told


def _describe_call(
    words: str,
    said: JsonObject | list[JsonObject],
    refusals: ErrorExamples | None = None,
    optional: Schema | None = None,
    **extra: Any,
) -> RouteOptions:
    """Describe a call. The first sentence of `words` is its name.

    `optional` are members that the answer may have in addition to those of `said`.
    """
    return {
        "summary": words.partition(".")[0],
        "description": words,
        "responses": _describe_responses(said, refusals or {}, optional or {}),
        "openapi_extra": extra,
    }


def _query_parameter(name: str, example: str, words: str) -> Schema:
    """A parameter of the query. None is required: what is left out is a word without letters."""
    return {"in": "query", "name": name, "schema": _TEXT, "example": example, "description": words}


def _request_body(texts: Mapping[str, str], **others: Schema) -> Schema:
    """`texts` must be there; of `others` only what has no description."""
    must = {name: {**_TEXT, "minLength": 1, "examples": [one]} for name, one in texts.items()}
    schema = {
        "type": "object",
        "required": [*texts, *(name for name, one in others.items() if "description" not in one)],
        "properties": {**must, **others},
    }
    return {
        "required": True,
        "description": "Names are matched whatever their case; others are left alone.",
        "content": {JSON_TYPE: {"schema": schema}},
    }


def _untyped_field(example: Any, words: str) -> Schema:
    return {"description": words, "examples": [example]}


# The calls.

_NOT_FOUND: Final[ErrorExamples] = {404: ("There is none with that id.", {"error": "not found"})}
_CONFLICT: Final[ErrorExamples] = {
    409: ("Right words, wrong moment.", {"error": "key 'ann' is locked"})
}
_TOO_MANY: Final[ErrorExamples] = {429: ("Too much for now.", {"error": "lane 'flow' is full"})}
_ISSUES: Final = [{"place": "start", "problem": "names no node"}]
_WARNINGS: Final[Schema] = {
    "type": "array",
    "description": "Unknown fields of the definition, which have no effect; absent if there are"
    " none. Fields of other dialects that would change its meaning are refused with 422.",
    "items": {
        "type": "object",
        "required": ["place", "problem"],
        "properties": {"place": _TEXT, "problem": _TEXT},
        "additionalProperties": False,
    },
}
_INVALID_DEFINITION: Final[ErrorExamples] = {
    422: ("The definition is at fault.", {"error": "start: names no node", "faults": _ISSUES})
}
_NO_START: Final[ErrorExamples] = {
    400: ("The request cannot be taken, or nothing is published.", {"error": "no start"})
}
_NO_WORKER: Final[ErrorExamples] = {500: ("Nobody offers it now.", {"error": "no worker"})}
_TASK_ID: Final = f"task-{_RUN_ID}"
_ID_PARAMETERS: Final = [_query_parameter("id", _TASK_ID, "Of the task.")]
_SERVICE_PARAMETER: Final = _query_parameter("service", "transform", "That it offers.")

REGISTER: Final = _describe_call(
    "Register a worker. It is alive, without load; once more: it is as it says now.",
    _OK,
    requestBody=_request_body(
        {"id": "worker-1", "url": "http://127.0.0.1:8080"},
        services=_untyped_field(["sum", "transform"], "A list of names."),
    ),
)
HEARTBEAT: Final = _describe_call(
    "Tell that a worker is alive. One that nobody knows is answered so, too.",
    _OK,
    requestBody=_request_body(
        {"id": "worker-1"},
        url=_untyped_field("http://127.0.0.1:8080", "Not read: it is that of the registration."),
        load={"type": "number", "description": "Calls that it is at work on.", "examples": [0]},
    ),
)
LIST_WORKERS: Final = _describe_call(
    "List workers. Those that were heard of lately, the least load first.",
    [_WORKER],
    parameters=[
        _SERVICE_PARAMETER,
        _query_parameter("ttl", "15", "How lately, in seconds; 15 if it is no number."),
    ],
)
ALLOCATE: Final = _describe_call(
    "Choose a worker. The live one with the least load.",
    _WORKER,
    _NO_WORKER,
    parameters=[_SERVICE_PARAMETER],
)
CREATE_FLOW: Final = _describe_call(
    "Make a flow. It has its own id, even if the name is taken, and no version yet.",
    {"id": "flow-1"},
    _CONFLICT,
    requestBody=_request_body({"Name": "shouting"}),
)
PUBLISH: Final = _describe_call(
    "Publish a version of a flow. New tasks get the latest.",
    {"id": "ver-1"},
    {**_NOT_FOUND, **_CONFLICT, **_INVALID_DEFINITION},
    optional={"warnings": _WARNINGS},
    requestBody=_request_body(
        {"FlowID": "flow-1", "DefinitionJSON": _DEFINITION},
        Version=_untyped_field(1, "A whole number from 1; the next one if it is none."),
        Status=_untyped_field("published", "Anything else makes a draft; nothing is `published`."),
    ),
)
START_TASK: Final = _describe_call(
    "Start a task. It gets the latest published version.",
    {"id": _TASK_ID},
    {**_NO_START, **_NOT_FOUND, **_CONFLICT, **_TOO_MANY},
    requestBody=_request_body(
        {"FlowID": "flow-1"},
        Version=_untyped_field(1, "Not read: it is the latest published one."),
        ParamsJSON=_untyped_field('{"text":"Hi"}', "A string that holds JSON."),
    ),
)
LIST_TASKS: Final = _describe_call(
    "List tasks. The last updated first, a hundred at most.",
    [_TASK],
    parameters=[
        _query_parameter("status", "running", "`pending`, `running`, `completed` …; else all.")
    ],
)
GET_TASK: Final = _describe_call(
    "Look at a task. As it is now.", _TASK, _NOT_FOUND, parameters=_ID_PARAMETERS
)
CANCEL_TASK: Final = _describe_call(
    "Cancel a task. One that is over stays as it is.",
    _OK,
    {**_NOT_FOUND, **_CONFLICT},
    parameters=_ID_PARAMETERS,
)
RUN_ONCE: Final = _describe_call(
    "Move a task on by one step. Unless somebody holds it: then it moves already.",
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
    "List what the nodes of a task have done. In order of their starts; nothing of an unknown one.",
    [_NODE_RUN],
    parameters=[_query_parameter("task_id", _TASK_ID, "Of the task.")],
)
# An array has no room to say that there is more.
NODE_RUNS["responses"][200]["headers"] = {
    "Link": {"description": '`rel="next"`: where those are that found no room.', "schema": _TEXT}
}
