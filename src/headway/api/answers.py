"""Answers: JSON text as it is, and the ones that every route may give."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from headway.api.problem import MEDIA_TYPE, problem_of
from headway.core.document import decode_document
from headway.core.errors import InvalidInput

JSON_TYPE: Final = "application/json"
_MEANINGS: Final = {
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
_EVERYWHERE: Final = (400, 401, 403, 421, 422, 431, 500, 503)
_WITH_BODY: Final = (408, 413, 415)


PROBLEM: Final = {"$ref": "#/components/schemas/ProblemView"}
ETAG: Final = {
    "ETag": {
        "description": 'The revision, as `If-Match` wants it: `"3"`.',
        "required": True,
        "schema": {"type": "string"},
    }
}
LOCATION: Final = {
    "Location": {
        "description": "Where it can be looked at.",
        "required": True,
        "schema": {"type": "string"},
    }
}
_RETRY_AFTER: Final = {
    "Retry-After": {"description": "In seconds.", "schema": {"type": "integer", "minimum": 0}}
}
_CHALLENGE: Final = {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}}
_HEADERS: Final = {401: _CHALLENGE, 429: _RETRY_AFTER, 503: _RETRY_AFTER}


def json_answer(text: str | bytes, *, status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(text, status_code=status, media_type=JSON_TYPE, headers=named)


def problems(*statuses: int, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for the OpenAPI document."""
    all_statuses = {*_EVERYWHERE, *statuses, *(_WITH_BODY if body else ())}
    return {
        status: {
            "description": _MEANINGS[status],
            "content": {MEDIA_TYPE: {"schema": PROBLEM}},
            **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
        }
        for status in sorted(all_statuses)
    }


def answered(
    model: type[BaseModel], *headers: Mapping[str, Any], status: int = 200
) -> dict[int | str, dict[str, Any]]:
    """The success of a route, for the OpenAPI document."""
    told: dict[str, Any] = {"model": model}
    if headers:
        told["headers"] = {name: one for given in headers for name, one in given.items()}
    return {status: told}


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("body", f"is not UTF-8 at byte {error.start:,}") from None


def strict_json(body: bytes) -> Any:
    """What it holds, by our own rules for JSON (S6); else a Problem names the place."""
    try:
        return decode_document(_text(body), place="body")
    except InvalidInput as error:
        raise problem_of(error) from None


class _StrictRequest(Request):
    async def json(self) -> Any:
        return strict_json(await self.body())


class StrictRoute(APIRoute):
    """Reads bodies by our own rules for JSON (S6)."""

    def get_route_handler(self) -> Any:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            response: Response = await handle(_StrictRequest(request.scope, request.receive))
            return response

        return strictly
