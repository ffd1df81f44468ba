"""The client of the HTTP API, over any transport."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlencode
from uuid import uuid4

from headway.core.errors import Error, InvalidInput

Query = Mapping[str, str | int | Sequence[str] | None]

UNREACHABLE: Final = "unreachable"
"""The code of an error: the server cannot be reached, and the request changed nothing."""
NOT_HEADWAY: Final = "not_headway"
UNANSWERED: Final = "unanswered"
"""The code of an error: a request that may change something was sent, but not answered."""
OUTCOME_UNKNOWN_CODES: Final = frozenset({UNANSWERED, "outcome_unknown"})
PAGE_SIZE_MAX: Final = 500
TEXT_MEDIA_TYPE: Final = "text/plain"
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
RETRY_COUNT_MAX: Final = 30
RETRY_S: Final = 1.0


class ApiResponse(NamedTuple):
    status: int
    body: bytes
    location: str | None = None
    """The target of a redirect. None if the response is not a redirect."""
    media_type: str = ""


class Transport(Protocol):
    """Sends requests to a server, or to the application in this process."""

    @property
    def address(self) -> str:
        """The address of the server or the database, for people."""
        ...

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse: ...

    def stream(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open an event stream, and yield its lines without line ends."""
        ...


class ApiError(Error):
    """The request failed. `status`, `code` and `extensions` are those of the problem document."""

    def __init__(self, status: int, code: str, detail: str, extensions: Mapping[str, Any]) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.extensions = extensions


class ApiObject(dict[str, Any]):
    """A JSON object in an answer of the server.

    Reading a missing field raises ApiError, because a headway server would have sent the field.
    """

    def __missing__(self, name: str) -> Any:
        raise _unexpected_response(f"its answer has no {name!r}")


class Client:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def address(self) -> str:
        return self._transport.address

    async def get(self, path: str, **query: str | int | Sequence[str] | None) -> Any:
        return await self._call("GET", f"{path}{_encode_query(query)}")

    async def get_text(self, path: str, **query: str | int | Sequence[str] | None) -> str:
        """Send a GET request whose answer is plain text, and return the text."""
        response = await self._send("GET", f"{path}{_encode_query(query)}", None)
        try:
            if response.media_type == TEXT_MEDIA_TYPE:
                return response.body.decode()
        except UnicodeDecodeError:
            pass
        raise _unexpected_response("its answer is not text")

    async def list_all(
        self, path: str, member: str, *, limit: int | None = None, **query: Any
    ) -> list[Any]:
        """Read a list page by page, and return all of its items, or the first `limit` items."""
        if limit is not None and limit < 1:
            raise InvalidInput("--limit", "must be at least 1")
        items: list[Any] = []
        cursor = None
        while limit is None or len(items) < limit:  # The last page has no cursor.
            count = PAGE_SIZE_MAX if limit is None else min(limit - len(items), PAGE_SIZE_MAX)
            page = await self.get(path, **query, limit=count, cursor=cursor)
            items += page[member]
            cursor = page["cursor"]
            if cursor is None:
                break
        return items

    async def post(self, path: str, body: Any = None) -> Any:
        return await self._call("POST", path, body)

    async def start(self, path: str, body: Any, *, idempotency_key: str | None) -> Any:
        """Start a run or a task only once, even if the answer of the server is lost.

        After a lost answer the request is sent again with the same idempotency key.
        """
        key = str(uuid4()) if idempotency_key is None else _check_idempotency_key(idempotency_key)
        headers = {"idempotency-key": key}
        try:
            return await self._call("POST", path, body, headers)
        except ApiError as error:
            if error.code not in OUTCOME_UNKNOWN_CODES:
                raise
        await asyncio.sleep(RETRY_S)
        try:
            return await self._call("POST", path, body, headers)
        except ApiError as error:
            if error.status == 503:
                hint = f"check, or repeat the command with --idempotency-key {key}"
                error.args = (f"{error}; it may have been accepted: {hint}",)
            raise

    async def patch(self, path: str, body: Any, headers: Mapping[str, str] = NO_HEADERS) -> Any:
        return await self._call("PATCH", path, body, headers)

    async def put(self, path: str, body: Any) -> Any:
        """Send a PUT request. A body of bytes is sent unchanged."""
        return await self._call("PUT", path, body)

    async def delete(self, path: str) -> None:
        if (await self._send("DELETE", path, None)).body:
            raise _unexpected_response("its answer to DELETE is not empty")

    async def _call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NO_HEADERS
    ) -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        response = await self._send(method, path, data, headers)
        try:
            answer = json.loads(response.body, object_hook=ApiObject)
        except ValueError:
            answer = None
        if isinstance(answer, ApiObject):
            return answer
        raise _unexpected_response("its answer is not a JSON object")

    async def _send(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> ApiResponse:
        response = await self._transport.request(method, path, data, headers)
        if not 200 <= response.status < 300:
            raise to_api_error(response)
        return response

    async def events(self, run_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the run's events as they happen. The stream does not end by itself.

        An event of type `resync` means that earlier events are missing. If the server restarts, the
        client reconnects and continues after the last event.
        """
        position: dict[str, str] = {}
        retry_count = 0
        while True:  # A stream ends when the server stops: then reconnect.
            path = f"/api/runs/{quote_segment(run_id)}/events{_encode_query(position)}"
            try:
                async with self._transport.stream(path) as lines:
                    retry_count = RETRY_COUNT_MAX
                    async for new_position, event in _parse_event_stream(lines):
                        position |= new_position
                        if event is not None:
                            yield event
            except ApiError as error:
                if error.status != 503 or retry_count == 0:
                    raise
                retry_count -= 1
            await asyncio.sleep(RETRY_S)


def quote_segment(name: str) -> str:
    """Percent-encode a name, slashes included, as one segment of a URL path."""
    return quote(name, safe="")


def _check_idempotency_key(idempotency_key: str) -> str:
    if not (idempotency_key.isascii() and idempotency_key.isprintable()):
        raise InvalidInput("--idempotency-key", "must consist of printable ASCII characters")
    return idempotency_key


def to_api_error(response: ApiResponse) -> ApiError:
    if response.location is not None:
        detail = f"the server redirects to {response.location}; set HEADWAY_URL to that address"
        return ApiError(response.status, NOT_HEADWAY, detail, {})
    try:
        problem = json.loads(response.body)
        return ApiError(response.status, problem.pop("code"), problem.pop("detail"), problem)
    except (ValueError, KeyError, TypeError, AttributeError):
        detail = f"the server answered {response.status}, and not like headway; check HEADWAY_URL"
        return ApiError(response.status, NOT_HEADWAY, detail, {})


def _unexpected_response(reason: str) -> ApiError:
    detail = (
        f"the server does not answer like headway ({reason}); check HEADWAY_URL and the server's"
        " version"
    )
    return ApiError(200, NOT_HEADWAY, detail, {})


def _encode_query(query: Query) -> str:
    parameters = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(parameters, doseq=True)}" if parameters else ""


async def _parse_event_stream(
    lines: AsyncIterator[bytes],
) -> AsyncIterator[tuple[dict[str, str], dict[str, Any] | None]]:
    """Yield the position and the event of each SSE block. Either may be missing."""
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.decode().partition(": ")
            fields[name] = value
            continue
        kind, data = fields.get("event"), fields.get("data")
        has_event = data is not None and kind != "server_closing"
        event = {"type": kind, **json.loads(data or "")} if has_event else None
        position = {"after": fields.get("id"), "epoch": fields.get("epoch")}
        yield {name: value for name, value in position.items() if value is not None}, event
        fields = {}
