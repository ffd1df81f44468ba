"""Requests by our own rules: strict JSON, and no parameter that means nothing (I15, S6)."""

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
"""Parameters that are told of; each of them takes much less to send than to explain."""
CURSOR_PARAMETER: Final = "cursor"
QueryParameters = Mapping[str, bool]
"""The names of what may be in a query, and whether each may come more than once."""


def _decode_utf8(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("body", f"is not UTF-8 at byte {error.start:,}") from None


def parse_strict_json(body: bytes) -> Any:
    """What it holds, by our own rules for JSON (S6); else a Problem names the place."""
    try:
        return decode_document(_decode_utf8(body), field="body")
    except InvalidInput as error:
        raise to_problem(error) from None


def check_query(query: bytes, parameters: QueryParameters) -> None:
    """A Problem names what is not one of `parameters`, or comes too often.

    Else a filter that is misspelt would show everything.
    """
    given = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    there_are = ", ".join(parameters) or "none"
    faults = (
        {"loc": ("query", name), "msg": problem}
        for name, count in given.items()
        if (problem := _parameter_problem(parameters.get(name), count, there_are))
    )
    if told := list(islice(faults, ISSUE_COUNT_MAX)):
        raise invalid_request(told)


def _parameter_problem(is_repeatable: bool | None, count: int, there_are: str) -> str:
    if is_repeatable is None:
        return f"there is no such parameter here; there are: {there_are}"
    return "" if is_repeatable or count == 1 else "may come only once"


class _StrictRequest(Request):
    async def json(self) -> Any:
        return parse_strict_json(await self.body())


class StrictRoute(APIRoute):
    """Reads bodies by our own rules for JSON (S6), and takes only parameters that it has (I15)."""

    def get_route_handler(self) -> Any:
        handle = super().get_route_handler()
        parameters = {
            field.alias: _is_list(field.field_info.annotation)
            for field in self.dependant.query_params
        }

        async def strictly(request: Request) -> Response:
            if request.state.is_body_unread:
                detail = "no body is taken here"
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

        return strictly


def _next_page_query(query: bytes, cursor: str) -> str:
    """The same question, about the next page; relative, so that it holds behind any proxy."""
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return urlencode(
        [
            *((name, value) for name, value in given if name != CURSOR_PARAMETER),
            (CURSOR_PARAMETER, cursor),
        ]
    )


def _is_list(annotation: Any) -> bool:
    return any(get_origin(one) is list for one in (annotation, *get_args(annotation)))
