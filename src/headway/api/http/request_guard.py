"""The one gate in front of every route: host, origin, who, how much, how long (S1, S2, S3, S9).

Deny by default: a path that is not listed as open needs a scope, and one that is takes no body but
a token. HEAD is GET, without what GET says.
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
"""For everybody, as the page is: who looks after the server, and who brings a token."""
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
"""Headers of which one would be heeded and another not."""
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
        """`on_answer` is told of every answer: to what, its status, how long it took to begin."""
        self._app = app
        self._on_response = on_response
        self._access = access
        self._origins = origins
        self._bodies = BodyReader()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # No route speaks anything else.
            return
        answer = _GuardedResponse(scope, send, self._on_response)
        body = b""
        try:
            body = await self._admit(scope, receive)
            if scope["method"] == "HEAD":
                answer.scope = got = {**scope, "method": "GET"}
                await self._app(got, _replay(body, answer.receive_disconnect), answer.send)
                await answer.finish()
            else:
                await self._app(scope, _replay(body, receive), answer.send)
        except Problem as problem:
            await answer.finish_with_problem(problem)
        except Error as error:
            await answer.finish_with_problem(to_problem(error))
        except Exception as error:  # Our own mistake, told without its inside.
            if not answer.has_ended:  # Else it was logged and told already, under one id.
                await answer.finish_with_problem(internal_error(error))
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
        # Its route refuses it, if there is one: else that is what has to be said.
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
                raise unauthorized("that token is none of this server's")
            raise unauthorized("send a token: Authorization: Bearer <token>")
        has, needs = caller.scope, _required_scope(method, path)
        is_enough = has is Scope.OPERATE or has is needs
        if not is_enough:
            detail = f"this token's scope is {has.label}; {needs.label} is needed"
            raise Problem(403, "forbidden", detail, {"scope": needs.label})
        scope.setdefault("state", {})["caller"] = caller


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or is_page_path(path)


def body_byte_count_max(method: str, path: str) -> int:
    """Who has not shown a token may bring one, and nothing else that would have to be held.

    To look at something takes no body either: a stream would hold it for as long as it lasts.
    """
    if (method, path) == SIGN_IN:
        return SIGN_IN_BYTE_COUNT_MAX
    return 0 if _is_open(path) or method in READ_METHODS else BYTE_COUNT_MAX


def _check_text(place: str, raw: bytes) -> None:
    """As it was sent, since who decodes it would put a sign of its own for what is no text.

    Nothing is named by NUL, and not every database can even be asked for it.
    """
    if b"%" not in raw:  # Whatever else is not plain ASCII is no HTTP.
        return
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise InvalidInput(place, "is not UTF-8") from None
    if "\0" in text:
        raise InvalidInput(place, "contains NUL")


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
                raise Problem(400, "bad_request", f"the header {name} is there twice")
            value = f"{headers[name]}{'; ' if name == 'cookie' else ', '}{value}"
        headers[name] = value
    return headers


def _find_cookie(headers: Mapping[str, str], name: str) -> str:
    """Ours, whatever other programs of this host have set beside it; empty when there is none."""
    for part in headers.get("cookie", "").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value
    return ""


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, then whatever the server says: that the client has gone."""
    has_given = False

    async def next_message() -> Message:
        nonlocal has_given
        if has_given:
            return await receive()
        has_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


class _GuardedResponse:
    """Adds our headers to every answer, and knows whether one has begun."""

    def __init__(self, scope: AsgiScope, send: Send, on_answer: OnResponse) -> None:
        self.scope = scope
        self._received_at_s = time.perf_counter()
        self._send = send
        self._on_response = on_answer
        self._has_started = self.has_ended = False
        self._started = asyncio.Event()

    async def receive_disconnect(self) -> Message:
        """What a client says that wanted no more than the beginning: that it is content."""
        await self._started.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_started = True
            took_s = time.perf_counter() - self._received_at_s
            self._on_response(self.scope, message["status"], took_s)
            headers = list(message.get("headers", ()))
            known = {name for name, _ in headers}
            headers += [header for header in API_HEADERS if header[0] not in known]
            message["headers"] = headers
        elif not message.get("more_body", False):
            self.has_ended = True
        await self._send(message)
        self._started.set()

    async def finish(self) -> None:
        """Nothing more comes: a stream of which only the beginning was wanted ends nowhere."""
        if not self.has_ended:
            await self.send({"type": "http.response.body", "body": b""})

    async def finish_with_problem(self, problem: Problem) -> None:
        if self.has_ended:  # It was told already.
            return
        if self._has_started:  # Too late to say it: the connection is closed in the middle.
            raise problem
        body = problem.body()
        headers = {**problem.all_headers, "content-length": str(len(body))}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send(
            {"type": "http.response.start", "status": problem.status_code, "headers": raw}
        )
        await self._send({"type": "http.response.body", "body": body})
