"""What the commands ask, in the words of the HTTP API, wherever it is answered."""

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
"""Nobody was there to be asked."""
NOT_HEADWAY: Final = "not_headway"
UNANSWERED: Final = "unanswered"
"""Somebody was asked, and the answer is lost."""
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
    """Where it sends us instead."""
    media_type: str = ""


class Transport(Protocol):
    """Carries a request to whoever answers it."""

    @property
    def address(self) -> str:
        """Where that is, for people."""
        ...

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse: ...

    def stream(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of an event stream, without their ends."""
        ...


class ApiError(Error):
    """What was asked is not done. `code` and `status` are those of the problem that was told."""

    def __init__(self, status: int, code: str, detail: str, more: Mapping[str, Any]) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.extensions = more


class ApiObject(dict[str, Any]):
    """An object in an answer; what every headway would have told is missing in no other way."""

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
        """An answer that is not JSON."""
        answer = await self._send("GET", f"{path}{_encode_query(query)}", None)
        try:
            if answer.media_type == TEXT_MEDIA_TYPE:
                return answer.body.decode()
        except UnicodeDecodeError:
            pass
        raise _unexpected_response("its answer is not text")

    async def list_all(
        self, path: str, member: str, *, limit: int | None = None, **query: Any
    ) -> list[Any]:
        """All that there are, or so many, page by page."""
        if limit is not None and limit < 1:
            raise InvalidInput("--limit", "must be at least 1")
        found: list[Any] = []
        cursor = None
        while limit is None or len(found) < limit:  # Every page has a last one behind it.
            count = PAGE_SIZE_MAX if limit is None else min(limit - len(found), PAGE_SIZE_MAX)
            page = await self.get(path, **query, limit=count, cursor=cursor)
            found += page[member]
            cursor = page["cursor"]
            if cursor is None:
                break
        return found

    async def post(self, path: str, body: Any = None) -> Any:
        return await self._call("POST", path, body)

    async def start(self, path: str, body: Any, *, idempotency_key: str | None) -> Any:
        """Start something, once: an answer that is lost is asked for again, under the same key."""
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
                hint = f"look, or repeat it with: --idempotency-key {key}"
                error.args = (f"{error}; it may have been accepted: {hint}",)
            raise

    async def patch(self, path: str, body: Any, headers: Mapping[str, str] = NO_HEADERS) -> Any:
        return await self._call("PATCH", path, body, headers)

    async def put(self, path: str, body: Any) -> Any:
        """Bytes are sent as they are."""
        return await self._call("PUT", path, body)

    async def delete(self, path: str) -> None:
        if (await self._send("DELETE", path, None)).body:
            raise _unexpected_response("it says more than that something is gone")

    async def _call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NO_HEADERS
    ) -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self._send(method, path, data, headers)
        try:
            told = json.loads(answer.body, object_hook=ApiObject)
        except ValueError:
            told = None
        if isinstance(told, ApiObject):
            return told
        raise _unexpected_response("its answer is not a JSON object")

    async def _send(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> ApiResponse:
        answer = await self._transport.request(method, path, data, headers)
        if not 200 <= answer.status < 300:
            raise to_api_error(answer)
        return answer

    async def events(self, run_id: str) -> AsyncIterator[dict[str, Any]]:
        """The run's events as they happen, without an end: whoever has seen enough leaves.

        One of type `resync` says that some are missing. A server that restarts is waited for.
        """
        place: dict[str, str] = {}
        left = 0
        while True:  # A stream that ends is one of a server that stops.
            path = f"/api/runs/{quote_segment(run_id)}/events{_encode_query(place)}"
            try:
                async with self._transport.stream(path) as lines:
                    left = RETRY_COUNT_MAX
                    async for place_now, event in _parse_event_stream(lines):
                        place |= place_now
                        if event is not None:
                            yield event
            except ApiError as error:
                if error.status != 503 or left == 0:
                    raise
                left -= 1
            await asyncio.sleep(RETRY_S)


def quote_segment(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _check_idempotency_key(idempotency_key: str) -> str:
    if not (idempotency_key.isascii() and idempotency_key.isprintable()):
        raise InvalidInput("--idempotency-key", "must be of plain letters, digits and signs")
    return idempotency_key


def to_api_error(answer: ApiResponse) -> ApiError:
    if answer.location is not None:
        detail = f"the server sends us to {answer.location}: name that one in HEADWAY_URL"
        return ApiError(answer.status, NOT_HEADWAY, detail, {})
    try:
        told = json.loads(answer.body)
        return ApiError(answer.status, told.pop("code"), told.pop("detail"), told)
    except (ValueError, KeyError, TypeError, AttributeError):
        detail = f"the server answered {answer.status}, and not as headway does"
        return ApiError(answer.status, NOT_HEADWAY, detail, {})


def _unexpected_response(why: str) -> ApiError:
    detail = f"the server does not answer as headway does ({why}): is it one, of this version?"
    return ApiError(200, NOT_HEADWAY, detail, {})


def _encode_query(query: Query) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(given, doseq=True)}" if given else ""


async def _parse_event_stream(
    lines: AsyncIterator[bytes],
) -> AsyncIterator[tuple[dict[str, str], dict[str, Any] | None]]:
    """Where to resume, as far as it is told, and the event: a block has any of it, or all."""
    fields: dict[str, str] = {}
    async for raw in lines:
        if raw:
            name, _, value = raw.decode().partition(": ")
            fields[name] = value
            continue
        kind, data = fields.get("event"), fields.get("data")
        has_event = data is not None and kind != "server_closing"
        event = {"type": kind, **json.loads(data or "")} if has_event else None
        told = {"after": fields.get("id"), "epoch": fields.get("epoch")}
        yield {name: value for name, value in told.items() if value is not None}, event
        fields = {}
