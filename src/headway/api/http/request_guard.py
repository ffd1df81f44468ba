"""The middleware in front of every route (S1, S2, S3, S9).

The guard checks the host, the origin, the caller and the size of each request, and reads its body
within a time limit. Access is denied by default: every path needs a token with the right scope,
except the open paths, which are the page and `OPEN_PATHS`. An open path accepts no body, except to
sign in. A HEAD request is handled like a GET request, but its response has no body.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from headway.api.http.access import Access, Scope
from headway.api.http.body import BodyReader, has_body
from headway.api.http.origin import READ_METHODS, Origins, is_page_path
from headway.api.http.problem import (
    Problem,
    headers_too_large,
    internal_error,
    to_problem,
    unauthorized,
)
from headway.core.document import BYTE_COUNT_MAX
from headway.core.errors import Error, InvalidInput
from headway.trace import TRACEPARENT, adopt_trace

SIGN_IN: Final = ("POST", "/api/session")
SIGN_IN_BYTE_COUNT_MAX: Final = 4 << 10
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/api/session"})
"""The paths of health checks and of signing in. Like the page, they need no token."""
WORKER_PATHS: Final = frozenset(
    {"/workers/register", "/workers/heartbeat", "/register", "/heartbeat"}
)
HEADERS_BYTE_COUNT_MAX: Final = 32 << 10
SINGLE_VALUE_HEADERS: Final = frozenset(
    {
        *("authorization", "content-length", "content-type", "host", "idempotency-key"),
        *("if-match", "last-event-id", "origin", "sec-fetch-site"),
    }
)
"""Headers that a request may have only once, because one of two values would be ignored."""
API_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


OnResponse = Callable[[AsgiScope, int, float], None]


class GuardMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        origins: Origins,
        on_response: OnResponse = lambda _, status, seconds: None,  # noqa: ARG005
    ) -> None:
        """Guard the application `app`.

        `on_response` is called at the start of each response. It receives the ASGI scope, the
        status, and the seconds since the request arrived.
        """
        self._app = app
        self._on_response = on_response
        self._access = access
        self._origins = origins
        self._bodies = BodyReader()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # There are no other routes, such as WebSockets.
            return
        response = _GuardedResponse(scope, send, self._on_response)
        body = b""
        try:
            body = await self._admit(scope, receive)
            if scope["method"] == "HEAD":
                response.scope = get_scope = {**scope, "method": "GET"}
                await self._app(
                    get_scope, _replay(body, response.receive_disconnect), response.send
                )
                await response.finish()
            else:
                await self._app(scope, _replay(body, receive), response.send)
        except Problem as problem:
            await response.finish_with_problem(problem)
        except Error as error:
            await response.finish_with_problem(to_problem(error))
        except Exception as error:  # A bug: clients get no details.
            if not response.has_ended:  # Otherwise it was already logged and answered.
                await response.finish_with_problem(internal_error(error))
        finally:
            self._bodies.release(body)

    async def _admit(self, scope: AsgiScope, receive: Receive) -> bytes:
        headers = _merge_headers(scope)
        method, path = scope["method"], scope["path"]
        self._origins.check_host(headers)
        scheme = scope.get("scheme", "http")
        self._origins.check_origin(headers, scheme=scheme, method=method, path=path)
        self._check_caller(headers, scope, method, path)
        _check_text("path", scope["raw_path"])
        _check_text("query", scope["query_string"])
        adopt_trace(headers.get(TRACEPARENT))
        byte_count_max = body_byte_count_max(method, path)
        # The route refuses an unread body. Without a route, the response is 404 instead.
        scope.setdefault("state", {})["is_body_unread"] = byte_count_max == 0 and has_body(headers)
        return await self._bodies.read(headers, receive, byte_count_max=byte_count_max)

    def _check_caller(
        self, headers: Mapping[str, str], scope: AsgiScope, method: str, path: str
    ) -> None:
        if _is_open(path):
            return
        caller = self._access.authenticate(headers, _find_cookie(headers, self._access.cookie_name))
        if caller is None:
            if "authorization" in headers:
                raise unauthorized("invalid token")
            raise unauthorized("a token is required; send it as: Authorization: Bearer <token>")
        required = _required_scope(method, path)
        if caller.scope not in (Scope.OPERATE, required):
            detail = f"this call needs scope {required.label}; the token has {caller.scope.label}"
            raise Problem(403, "forbidden", detail, {"scope": required.label})
        scope.setdefault("state", {})["caller"] = caller


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or is_page_path(path)


def body_byte_count_max(method: str, path: str) -> int:
    """Return the maximum size of a request's body in bytes. 0 means that no body is read.

    Unauthenticated requests may carry a body only to sign in. GET and HEAD requests may carry none,
    because a streamed response would hold the body in memory until the stream ends.
    """
    if (method, path) == SIGN_IN:
        return SIGN_IN_BYTE_COUNT_MAX
    return 0 if _is_open(path) or method in READ_METHODS else BYTE_COUNT_MAX


def _check_text(field: str, raw: bytes) -> None:
    """Raise InvalidInput if percent-encoded text is not UTF-8 or contains NUL.

    The raw bytes are checked, because decoders replace invalid bytes. No name contains NUL, and
    some databases refuse a query that contains it.
    """
    if b"%" not in raw:  # Unencoded text is ASCII: HTTP permits nothing else.
        return
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise InvalidInput(field, "is not UTF-8") from None
    if "\0" in text:
        raise InvalidInput(field, "contains NUL")


def _required_scope(method: str, path: str) -> Scope:
    if path in WORKER_PATHS:
        return Scope.WORKER
    return Scope.READ if method in READ_METHODS else Scope.OPERATE


def _merge_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS_BYTE_COUNT_MAX:
        raise headers_too_large()
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers:
            if name in SINGLE_VALUE_HEADERS:
                raise Problem(400, "bad_request", f"the header {name} occurs more than once")
            value = f"{headers[name]}{'; ' if name == 'cookie' else ', '}{value}"
        headers[name] = value
    return headers


def _find_cookie(headers: Mapping[str, str], name: str) -> str:
    """Return the value of a cookie, or an empty string if it is missing."""
    for part in headers.get("cookie", "").split(";"):
        cookie_name, _, value = part.strip().partition("=")
        if cookie_name == name:
            return value
    return ""


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that first returns the body, then the server's messages."""
    is_replayed = False

    async def next_message() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


class _GuardedResponse:
    """Adds the default headers to a response, and tracks whether it has started or ended."""

    def __init__(self, scope: AsgiScope, send: Send, on_response: OnResponse) -> None:
        self.scope = scope
        self._received_at_s = time.perf_counter()
        self._send = send
        self._on_response = on_response
        self._has_started = self.has_ended = False
        self._started = asyncio.Event()

    async def receive_disconnect(self) -> Message:
        """Act as the ASGI `receive` of a HEAD request: disconnect once the headers are sent."""
        await self._started.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_started = True
            took_s = time.perf_counter() - self._received_at_s
            self._on_response(self.scope, message["status"], took_s)
            headers = list(message.get("headers", ()))
            names = {name for name, _ in headers}
            headers += [header for header in API_HEADERS if header[0] not in names]
            message["headers"] = headers
        elif not message.get("more_body", False):
            self.has_ended = True
        await self._send(message)
        self._started.set()

    async def finish(self) -> None:
        """End the response to a HEAD request if the application has not ended it.

        An event stream that is disconnected does not end its response.
        """
        if not self.has_ended:
            await self.send({"type": "http.response.body", "body": b""})

    async def finish_with_problem(self, problem: Problem) -> None:
        if self.has_ended:  # The client has a complete response.
            return
        if self._has_started:  # Too late for another response: uvicorn closes the connection.
            raise problem
        body = problem.body()
        headers = {**problem.all_headers, "content-length": str(len(body))}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send(
            {"type": "http.response.start", "status": problem.status_code, "headers": raw}
        )
        await self._send({"type": "http.response.body", "body": body})
