"""`POST /api/runs`, the one call that comes in thousands: answered before any routing.

Its route is declared like every other, so that the OpenAPI document has it, and leads to the same
functions; but to find a route and to work out what it wants takes longer than to accept a run.
"""

from typing import Annotated, Any, Final

from fastapi import Header, Response
from pydantic import TypeAdapter, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api.headway_api import HeadwayApi
from headway.api.http.caller import get_actor
from headway.api.http.problem import invalid_request
from headway.api.http.responses import json_response
from headway.api.http.strict import check_query, parse_strict_json
from headway.api.routes.metrics import PATH_TEMPLATE_KEY
from headway.api.wire.api_models import Name, SubmitBody
from headway.api.wire.views import run_view
from headway.core.duration import UNSET
from headway.services.submit.run_handle import RunHandle
from headway.write_tracker import begin_tracking

RUNS_PATH: Final = "/api/runs"
_IDEMPOTENCY_KEY: Final = b"idempotency-key"
IdempotencyKey = Annotated[
    Name | None,
    Header(description="The same again means the same request: it is carried out once."),
]
_body_adapter: Final = TypeAdapter(SubmitBody)
_key_adapter: Final[TypeAdapter[str]] = TypeAdapter(Name)


async def submit_request(
    face: HeadwayApi, body: SubmitBody, idempotency_key: str | None, by: str
) -> Response:
    """The answer to a submission that is well-formed."""
    wanted = vars(body)
    if "timeout_s" not in body.model_fields_set:  # The job's limit applies; null means no limit.
        wanted = {**wanted, "timeout_s": UNSET}
    handle = await face.submit(**wanted, idempotency_key=idempotency_key, by=by)
    return await accepted_response(handle)


async def accepted_response(handle: RunHandle) -> Response:
    """201 with the run; without another look where it has just been accepted."""
    text = run_view(handle.accepted_record or await handle.record())
    return json_response(text, status=201, location=f"{RUNS_PATH}/{handle.id}")


class SubmitFastPath:
    """Behind the guard, which has read the body whole, and in front of everything else."""

    def __init__(self, app: ASGIApp, face: HeadwayApi) -> None:
        self._app = app
        self._headway = face

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin_tracking()
        if scope.get("path") != RUNS_PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope[PATH_TEMPLATE_KEY] = RUNS_PATH
        if query := scope["query_string"]:
            check_query(query, {})
        message = await receive()
        body = _validate(_body_adapter, _decode_body(message["body"]), "body")
        key, by = _idempotency_key(scope), get_actor(scope)
        answer = await submit_request(self._headway, body, key, by)
        await answer(scope, receive, send)


def _decode_body(body: bytes) -> Any:
    if not body:
        raise invalid_request([{"loc": ("body",), "msg": "Field required"}])
    return parse_strict_json(body)


def _idempotency_key(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _IDEMPOTENCY_KEY:
            key: str = _validate(_key_adapter, value.decode("latin-1"), "header", "idempotency-key")
            return key
    return None


def _validate(kind: TypeAdapter[Any], given: object, *place: str) -> Any:
    try:
        return kind.validate_python(given, from_attributes=True)
    except ValidationError as error:
        faults = [{**fault, "loc": (*place, *fault["loc"])} for fault in error.errors()]
        raise invalid_request(faults) from None
