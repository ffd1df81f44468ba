"""The root paths of the first flow centre, as the OpenAPI document tells of them (R5.6).

An object is told by an example: an answer has all of its members, of those kinds, and no others.
What a request may say in any way at all is told without a kind: nothing is refused there.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from headway.api.http.responses import JSON_TYPE, RETRY_AFTER, problems
from headway.api.wire.api_models import FaultView

TAG: Final = "first-centre"
Schema = dict[str, Any]
Said = dict[str, Any]
Refusals = Mapping[int, tuple[str, Said]]
"""What each status means, and an example of what is said."""
Options = dict[str, Any]
"""Of a route."""

_RUN: Final = "0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10"
_AT: Final = 1_790_000_000
_DEFINITION: Final = json.dumps(
    {"start": "up", "nodes": {"up": {"kind": "executor", "service": "transform"}}}
)
_WORKER: Final[Said] = {
    "ID": "worker-1",
    "URL": "http://127.0.0.1:8080",
    "Services": ["sum", "transform"],
    "Load": 0,
    "LastHeartbeat": _AT,
    "Status": "online",
}
_TASK: Final[Said] = {
    "ID": f"task-{_RUN}",
    "FlowVersionID": "ver-1",
    "Status": "running",
    "ParamsJSON": '{"text":"Hi"}',
    "SharedJSON": "{}",
    "CurrentNodeKey": "up",
    "LastAction": "",
    "StepCount": 0,
    "RetryStateJSON": "{}",
    "LeaseOwner": "instance-1",
    "LeaseExpiry": _AT + 10,
    "RequestID": _RUN,
    "CreatedAt": _AT,
    "UpdatedAt": _AT,
}
_NODE_RUN: Final[Said] = {
    "id": f"run-{_RUN}-1",
    "taskId": f"task-{_RUN}",
    "nodeKey": "up",
    "attemptNo": 1,
    "status": "ok",
    "prepJson": "null",
    "execInputJson": '"Hi"',
    "execOutputJson": '"HI"',
    "errorText": "",
    "action": "default",
    "startedAt": _AT,
    "finishedAt": _AT,
    "workerId": "worker-1",
    "workerUrl": "http://127.0.0.1:8080",
}
_OK: Final[Said] = {"ok": "1"}


class FirstCentreError(BaseModel):
    """Why something is not done, in the words of the first flow centre."""

    model_config = ConfigDict(extra="forbid")

    error: str
    detail: str | None = Field(None, description="What is wrong, and where.")
    faults: list[FaultView] | None = Field(
        None, description="All that is wrong with a definition, each by its place."
    )


# How they are put together.

_TEXT: Final[Schema] = {"type": "string"}
_ALLOW: Final = {"Allow": {"description": "The methods that there are.", "schema": _TEXT}}
_HEADERS: Final = {405: _ALLOW, 429: RETRY_AFTER}
_EVERYWHERE: Final[Refusals] = {
    400: ("The request cannot be taken.", {"error": "bad request", "detail": "id: must be a text"}),
    405: ("The path has no such method.", {"error": "method"}),
}


def _kind(value: Any) -> Schema:
    if isinstance(value, list):
        return {"type": "array", "items": _kind(value[0])}
    return {"type": "string" if isinstance(value, str) else "integer"}


def _exactly(said: Said | list[Said]) -> Schema:
    if isinstance(said, list):
        return {"type": "array", "items": _exactly(said[0])}
    return {
        "type": "object",
        "required": list(said),
        "properties": {name: _kind(value) for name, value in said.items()},
        "additionalProperties": False,
    }


def _answers(
    said: Said | list[Said], refusals: Refusals, optional: Schema
) -> dict[int | str, dict[str, Any]]:
    schema = _exactly(said)
    if optional:
        schema["properties"] |= optional
    done = {JSON_TYPE: {"schema": schema, "example": said}}
    # What the guard refuses it refuses everywhere in the same words.
    told: dict[int | str, dict[str, Any]] = {
        200: {"description": "Done.", "content": done},
        **problems(),
    }
    for status, (meaning, error) in {**_EVERYWHERE, **refusals}.items():
        others = told.get(status, {"headers": _HEADERS.get(status, {})})
        content = {JSON_TYPE: {"example": error}, **others.get("content", {})}
        more = {"description": meaning, "content": content, "model": FirstCentreError}
        told[status] = {**others, **more}
    return told


def _call(
    words: str,
    said: Said | list[Said],
    refusals: Refusals | None = None,
    optional: Schema | None = None,
    **extra: Any,
) -> Options:
    """Describe a call. The first sentence of `words` is its name.

    `optional` are members that the answer may have in addition to those of `said`.
    """
    return {
        "summary": words.partition(".")[0],
        "description": words,
        "responses": _answers(said, refusals or {}, optional or {}),
        "openapi_extra": extra,
    }


def _asked(name: str, example: str, words: str) -> Schema:
    """A parameter of the query. None is required: what is left out is a word without letters."""
    return {"in": "query", "name": name, "schema": _TEXT, "example": example, "description": words}


def _body(texts: Mapping[str, str], **others: Schema) -> Schema:
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


def _loose(example: Any, words: str) -> Schema:
    return {"description": words, "examples": [example]}


# The calls.

_LOST: Final[Refusals] = {404: ("There is none with that id.", {"error": "not found"})}
_LATE: Final[Refusals] = {409: ("Right words, wrong moment.", {"error": "key 'ann' is locked"})}
_FULL: Final[Refusals] = {429: ("Too much for now.", {"error": "lane 'flow' is full"})}
_FAULTS: Final = [{"place": "start", "problem": "names no node"}]
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
_FAULTY: Final[Refusals] = {
    422: ("The definition is at fault.", {"error": "start: names no node", "faults": _FAULTS})
}
_NO_START: Final[Refusals] = {
    400: ("The request cannot be taken, or nothing is published.", {"error": "no start"})
}
_NO_WORKER: Final[Refusals] = {500: ("Nobody offers it now.", {"error": "no worker"})}
_TASK_ID: Final = f"task-{_RUN}"
_BY_ID: Final = [_asked("id", _TASK_ID, "Of the task.")]
_SERVICE: Final = _asked("service", "transform", "That it offers.")

REGISTER: Final = _call(
    "Register a worker. It is alive, without load; once more: it is as it says now.",
    _OK,
    requestBody=_body(
        {"id": "worker-1", "url": "http://127.0.0.1:8080"},
        services=_loose(["sum", "transform"], "A list of names."),
    ),
)
HEARTBEAT: Final = _call(
    "Tell that a worker is alive. One that nobody knows is answered so, too.",
    _OK,
    requestBody=_body(
        {"id": "worker-1"},
        url=_loose("http://127.0.0.1:8080", "Not read: it is that of the registration."),
        load={"type": "number", "description": "Calls that it is at work on.", "examples": [0]},
    ),
)
LIST_WORKERS: Final = _call(
    "List workers. Those that were heard of lately, the least load first.",
    [_WORKER],
    parameters=[_SERVICE, _asked("ttl", "15", "How lately, in seconds; 15 if it is no number.")],
)
ALLOCATE: Final = _call(
    "Choose a worker. The live one with the least load.", _WORKER, _NO_WORKER, parameters=[_SERVICE]
)
CREATE_FLOW: Final = _call(
    "Make a flow. It has its own id, even if the name is taken, and no version yet.",
    {"id": "flow-1"},
    _LATE,
    requestBody=_body({"Name": "shouting"}),
)
PUBLISH: Final = _call(
    "Publish a version of a flow. New tasks get the latest.",
    {"id": "ver-1"},
    {**_LOST, **_LATE, **_FAULTY},
    optional={"warnings": _WARNINGS},
    requestBody=_body(
        {"FlowID": "flow-1", "DefinitionJSON": _DEFINITION},
        Version=_loose(1, "A whole number from 1; the next one if it is none."),
        Status=_loose("published", "Anything else makes a draft; nothing is `published`."),
    ),
)
START_TASK: Final = _call(
    "Start a task. It gets the latest published version.",
    {"id": _TASK_ID},
    {**_NO_START, **_LOST, **_LATE, **_FULL},
    requestBody=_body(
        {"FlowID": "flow-1"},
        Version=_loose(1, "Not read: it is the latest published one."),
        ParamsJSON=_loose('{"text":"Hi"}', "A string that holds JSON."),
    ),
)
LIST_TASKS: Final = _call(
    "List tasks. The last updated first, a hundred at most.",
    [_TASK],
    parameters=[_asked("status", "running", "`pending`, `running`, `completed` …; else all.")],
)
GET_TASK: Final = _call("Look at a task. As it is now.", _TASK, _LOST, parameters=_BY_ID)
CANCEL_TASK: Final = _call(
    "Cancel a task. One that is over stays as it is.",
    _OK,
    {**_LOST, **_LATE},
    parameters=_BY_ID,
)
RUN_ONCE: Final = _call(
    "Move a task on by one step. Unless somebody holds it: then it moves already.",
    _OK,
    {**_LOST, **_LATE},
    parameters=_BY_ID,
)
SIGNAL: Final = _call(
    "Signal a task. `value` is set in its shared state under `key`, and the task wakes up.",
    _OK,
    {**_LOST, **_LATE, **_FULL},
    requestBody=_body({"task_id": _TASK_ID, "key": "go"}, value={"examples": [True]}),
)
NODE_RUNS: Final = _call(
    "List what the nodes of a task have done. In order of their starts; nothing of an unknown one.",
    [_NODE_RUN],
    parameters=[_asked("task_id", _TASK_ID, "Of the task.")],
)
# An array has no room to say that there is more.
NODE_RUNS["responses"][200]["headers"] = {
    "Link": {"description": '`rel="next"`: where those are that found no room.', "schema": _TEXT}
}
