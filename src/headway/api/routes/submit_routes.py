"""`POST /api/runs`: submit a run. A fast path and a route both call `submit_request`.

`SubmitFastPath` answers the requests before they reach the router. Submitting is the most frequent
call, and FastAPI takes longer to find a route and resolve its parameters than headway takes to
accept a run. `add_submit_route` declares the same call for the OpenAPI document. No request
reaches that route, because the fast path answers all of them.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Response
from pydantic import TypeAdapter, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api.headway_api import HeadwayApi
from headway.api.http.problem import invalid_request
from headway.api.http.request import Actor, get_actor
from headway.api.http.responses import (
    LOCATION_HEADER,
    json_response,
    problem_responses,
    success_response,
)
from headway.api.http.strict import check_query, parse_strict_json
from headway.api.routes.metrics import PATH_TEMPLATE_KEY
from headway.api.wire.api_models import Name, RunView, SubmitBody
from headway.api.wire.views import run_view
from headway.core.duration import UNSET
from headway.ports.write_tracker import begin_tracking
from headway.services.submit.run_handle import RunHandle

RUNS_PATH: Final = "/api/runs"
_IDEMPOTENCY_KEY: Final = b"idempotency-key"
IdempotencyKey = Annotated[
    Name | None,
    Header(description="Requests with the same key are carried out once."),
]
_body_adapter: Final = TypeAdapter(SubmitBody)
_key_adapter: Final[TypeAdapter[str]] = TypeAdapter(Name)


async def submit_request(
    api: HeadwayApi, body: SubmitBody, idempotency_key: str | None, by: str
) -> Response:
    """Submit a run from a valid body, and return the response."""
    options = vars(body)
    if "timeout_s" not in body.model_fields_set:  # The job's limit applies; null means no limit.
        options = {**options, "timeout_s": UNSET}
    handle = await api.submit(**options, idempotency_key=idempotency_key, by=by)
    return await accepted_response(handle)


async def accepted_response(handle: RunHandle) -> Response:
    """Return a 201 response with the run of a handle.

    The handle of a new submission already has the run. Otherwise it is read from the store.
    """
    text = run_view(handle.accepted_record or await handle.record())
    return json_response(text, status=201, location=f"{RUNS_PATH}/{handle.id}")


def add_submit_route(router: APIRouter, api: HeadwayApi) -> None:
    """Declare `POST /api/runs` in the router of RUNS_PATH, for the OpenAPI document."""

    @router.post(
        "",
        status_code=201,
        response_class=Response,
        responses={
            **success_response(RunView, LOCATION_HEADER, status=201),
            **problem_responses(404, 409, 412, 429),
        },
    )
    async def submit(
        body: SubmitBody, by: Actor, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Submit a run. After 201 the run is stored durably.

        409 contains the active run of the key. Repeated requests with the same Idempotency-Key
        return the same run.
        """
        return await submit_request(api, body, idempotency_key, by)


class SubmitFastPath:
    """Middleware that answers `POST /api/runs` and passes all other requests to the router.

    It runs behind the guard, which has read the whole body.
    """

    def __init__(self, app: ASGIApp, api: HeadwayApi) -> None:
        self._app = app
        self._api = api

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
        response = await submit_request(self._api, body, key, by)
        await response(scope, receive, send)


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


def _validate(adapter: TypeAdapter[Any], value: object, *location: str) -> Any:
    try:
        return adapter.validate_python(value, from_attributes=True)
    except ValidationError as error:
        errors = [{**issue, "loc": (*location, *issue["loc"])} for issue in error.errors()]
        raise invalid_request(errors) from None
