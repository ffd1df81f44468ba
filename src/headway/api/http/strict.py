"""Strict requests: strict JSON, and no unknown query parameters (I15, S6)."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, get_args, get_origin
from urllib.parse import parse_qsl, urlencode

from fastapi import Request, Response
from fastapi.routing import APIRoute

from headway.api.http.cursor import Page
from headway.api.http.problem import Problem, invalid_request, to_problem
from headway.core.document import decode_document
from headway.core.errors import InvalidInput

ISSUE_COUNT_MAX: Final = 20
"""The maximum number of reported issues.

An issue is much longer than the query parameter that causes it.
"""
CURSOR_PARAMETER: Final = "cursor"
QueryParameters = Mapping[str, bool]
"""The query parameters of a route by name. True if the parameter may be repeated."""


def _decode_utf8(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("body", f"is not UTF-8 at byte {error.start:,}") from None


def parse_strict_json(body: bytes) -> Any:
    """Decode JSON by the strict rules of `decode_document` (S6).

    Raise a Problem if the JSON is invalid.
    """
    try:
        return decode_document(_decode_utf8(body), field="body")
    except InvalidInput as error:
        raise to_problem(error) from None


def check_query(query: bytes, parameters: QueryParameters) -> None:
    """Raise a Problem if a query parameter is unknown, or repeated although it must not be.

    If a misspelled filter were ignored, the response would contain everything.
    """
    counts = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    allowed = ", ".join(parameters) or "none"
    issues = (
        {"loc": ("query", name), "msg": problem}
        for name, count in counts.items()
        if (problem := _parameter_problem(parameters.get(name), count, allowed))
    )
    if reported := list(islice(issues, ISSUE_COUNT_MAX)):
        raise invalid_request(reported)


def _parameter_problem(is_repeatable: bool | None, count: int, allowed: str) -> str:
    if is_repeatable is None:
        return f"unknown parameter; allowed: {allowed}"
    return "" if is_repeatable or count == 1 else "must not be repeated"


class _StrictRequest(Request):
    async def json(self) -> Any:
        return parse_strict_json(await self.body())


class StrictRoute(APIRoute):
    """A route that accepts only strict JSON (S6) and refuses unknown query parameters (I15).

    It also refuses a request with a body that the guard has not read.
    """

    def get_route_handler(self) -> Any:
        handle = super().get_route_handler()
        parameters = {
            field.alias: _is_list(field.field_info.annotation)
            for field in self.dependant.query_params
        }

        async def handle_strictly(request: Request) -> Response:
            if request.state.is_body_unread:
                detail = "this call accepts no body"
                raise Problem(400, "bad_request", detail, headers={"connection": "close"})
            query: bytes = request.scope["query_string"]
            if query:
                check_query(query, parameters)
            response: Response = await handle(_StrictRequest(request.scope, request.receive))
            if isinstance(response, Page) and response.cursor is not None:
                response.headers["link"] = (
                    f'<?{_next_page_query(query, response.cursor)}>; rel="next"'
                )
            return response

        return handle_strictly


def _next_page_query(query: bytes, cursor: str) -> str:
    """Return the query string of the next page: the query of this page with a new cursor.

    The `Link` header contains only the query, without host and path, so it works behind a proxy.
    """
    parameters = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return urlencode(
        [
            *((name, value) for name, value in parameters if name != CURSOR_PARAMETER),
            (CURSOR_PARAMETER, cursor),
        ]
    )


def _is_list(annotation: Any) -> bool:
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))
