"""Builds JSON responses, and describes the responses of routes for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel

from headway.api.http.problem import MEDIA_TYPE

JSON_TYPE: Final = "application/json"
_DESCRIPTIONS: Final = {
    400: "The request cannot be read.",
    401: "A token is needed.",
    403: "The token's scope does not permit the call, or a page of another origin sent it.",
    404: "The resource does not exist.",
    408: "The body did not arrive in time.",
    409: "The request conflicts with the current state; `code` gives the reason.",
    412: "The resource was changed since it was read.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The host name is not allowed.",
    422: "The request is invalid; `path` names the field.",
    429: "A limit is reached; retry after `Retry-After`.",
    431: "The headers are too large.",
    500: "Internal error; see the server log for `error_id`.",
    503: "The database or another dependency does not answer; retry after `Retry-After`.",
}
# Any request may have a body. The OpenAPI document omits 408, 413 and 415 where none is read.
_COMMON_STATUSES: Final = (400, 401, 403, 408, 413, 415, 421, 422, 431, 500, 503)
PROBLEM_SCHEMA: Final = {"$ref": "#/components/schemas/ProblemView"}
ETAG_HEADER: Final = {
    "ETag": {
        "description": 'The revision, for `If-Match`: `"3"`.',
        "required": True,
        "schema": {"type": "string"},
    }
}
LOCATION_HEADER: Final = {
    "Location": {
        "description": "The path of the new resource.",
        "required": True,
        "schema": {"type": "string"},
    }
}
RETRY_AFTER_HEADER: Final = {
    "Retry-After": {"description": "In seconds.", "schema": {"type": "integer", "minimum": 0}}
}
_CHALLENGE_HEADER: Final = {
    "WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}
}
_HEADERS: Final = {401: _CHALLENGE_HEADER, 429: RETRY_AFTER_HEADER, 503: RETRY_AFTER_HEADER}


def json_response(text: str | bytes, *, status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(text, status_code=status, media_type=JSON_TYPE, headers=named)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the error responses of a route and of the guard, for the OpenAPI document."""
    return {
        status: {
            "description": _DESCRIPTIONS[status],
            "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}},
            **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
        }
        for status in sorted({*_COMMON_STATUSES, *statuses})
    }


def success_response(
    model: type[BaseModel], *headers: Mapping[str, Any], status: int = 200
) -> dict[int | str, dict[str, Any]]:
    """Describe the success response of a route, for the OpenAPI document."""
    response: dict[str, Any] = {"model": model}
    if headers:
        response["headers"] = {name: header for group in headers for name, header in group.items()}
    return {status: response}
