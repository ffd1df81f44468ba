"""Answers: JSON text as it is, and the ones that every route may give."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel

from headway.api.http.problem import MEDIA_TYPE

JSON_TYPE: Final = "application/json"
_DESCRIPTIONS: Final = {
    400: "The request cannot be read.",
    401: "A token is needed.",
    403: "The token's scope is too weak, or the request comes from a page of another origin.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    409: "Right words, wrong moment: `code` tells which.",
    412: "It was changed since it was read.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not answer to that host.",
    422: "The words cannot be taken; `place` tells which.",
    429: "Too much for now; `Retry-After` tells when to come again.",
    431: "The headers are too large.",
    500: "A mistake of headway's; its log tells more under `error_id`.",
    503: "Something that headway needs does not answer; `Retry-After` tells when to come again.",
}
# A body may come with any request; the document leaves out what is said of it where none is read.
_COMMON_STATUSES: Final = (400, 401, 403, 408, 413, 415, 421, 422, 431, 500, 503)
PROBLEM_SCHEMA: Final = {"$ref": "#/components/schemas/ProblemView"}
ETAG_HEADER: Final = {
    "ETag": {
        "description": 'The revision, as `If-Match` wants it: `"3"`.',
        "required": True,
        "schema": {"type": "string"},
    }
}
LOCATION_HEADER: Final = {
    "Location": {
        "description": "Where it can be looked at.",
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
    """The refusals of a route, its own and those of the guard, for the OpenAPI document."""
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
    """The success of a route, for the OpenAPI document."""
    told: dict[str, Any] = {"model": model}
    if headers:
        told["headers"] = {name: one for given in headers for name, one in given.items()}
    return {status: told}
