"""The one gate in front of every route: host, origin, who, how much, how long (S1, S2, S3, S9).

Deny by default: a path that is not listed as open needs a scope. A body is read here, whole and
bounded, so that no route can be kept waiting by its client.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import urlsplit

from headway.api.access import Access, Scope
from headway.api.asgi import App, Message, Receive, Send
from headway.api.asgi import Scope as AsgiScope
from headway.api.problem import Problem, internal, problem_of
from headway.core.document import BYTE_COUNT_MAX
from headway.core.errors import Error
from headway.trace import TRACEPARENT, adopt_trace

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
PAGE_PREFIX: Final = "/ui/"
PAGE_PATHS: Final = frozenset({"/", "/ui", "/api/session"})
"""Where a browser comes in, and gives its token."""
WORKER_PATHS: Final = frozenset(
    {"/workers/register", "/workers/heartbeat", "/register", "/heartbeat"}
)
BODY_S_MAX: Final = 20.0
HEADERS_BYTE_COUNT_MAX: Final = 32 << 10
READ_METHODS: Final = frozenset({"GET", "HEAD"})
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
API_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class Guard:
    def __init__(
        self,
        app: App,
        *,
        access: Access,
        hosts: Iterable[str],
        on_answer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`hosts` are the names by which this server may be called, without their ports.

        `on_answer` is told the status of every answer.
        """
        self._app = app
        self._on_answer = on_answer
        self._access = access
        self._hosts = frozenset(host.lower() for host in hosts) | LOOPBACK_HOSTS

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # No route speaks anything else.
            return
        answer = _Answer(send, self._on_answer)
        try:
            body = await self._admit(scope, receive)
            await self._app(scope, _replay(body, receive), answer.send)
        except Problem as problem:
            await answer.end_with(problem)
        except Error as error:
            await answer.end_with(problem_of(error))
        except Exception as error:  # Our own mistake, told without its inside.
            await answer.end_with(internal(error))

    async def _admit(self, scope: AsgiScope, receive: Receive) -> bytes:
        headers = _headers(scope)
        method, path = scope["method"], scope["path"]
        self._check_host(headers)
        self._check_origin(headers, scope)
        self._check_scope(headers, scope, method, path)
        adopt_trace(headers.get(TRACEPARENT))
        return await _body(headers, receive)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        if _host_name(headers.get("host", "")) not in self._hosts:
            raise Problem(
                421, "unknown_host", "this server does not answer to that Host; see allowed_hosts"
            )

    def _check_origin(self, headers: Mapping[str, str], scope: Mapping[str, Any]) -> None:
        """A browser's request comes from our own page, whatever the method (S3)."""
        site = headers.get("sec-fetch-site")
        origin = headers.get("origin")
        ours = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}"
        is_foreign = site not in (None, "same-origin", "none")
        if is_foreign or (origin is not None and origin.lower() != ours.lower()):
            raise Problem(403, "cross_origin", "a page of another origin may not call this server")

    def _check_scope(
        self, headers: Mapping[str, str], scope: AsgiScope, method: str, path: str
    ) -> None:
        if path in OPEN_PATHS or path.startswith(PAGE_PREFIX) or path in PAGE_PATHS:
            return
        cookies = _cookies(headers) if "cookie" in headers else {}
        has = self._access.scope_of(headers, cookies)
        if has is None:
            raise Problem(
                401,
                "unauthorized",
                "send a token: Authorization: Bearer <token>",
                headers={"www-authenticate": 'Bearer realm="headway"'},
            )
        needs = _needed(method, path)
        is_enough = has is Scope.OPERATE or has is needs
        if not is_enough:
            detail = f"this token's scope is {has.word}; {needs.word} is needed"
            raise Problem(403, "forbidden", detail, {"scope": needs.word})
        scope.setdefault("state", {})["scope"] = has


@lru_cache(maxsize=100)
def _host_name(host: str) -> str | None:
    """Without its port; most requests say the same."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _needed(method: str, path: str) -> Scope:
    if path in WORKER_PATHS:
        return Scope.WORKER
    return Scope.READ if method in READ_METHODS else Scope.OPERATE


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS_BYTE_COUNT_MAX:
        raise Problem(431, "headers_too_large", "the headers are too large")
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers and name in ("host", "authorization", "content-length", "content-type"):
            raise Problem(400, "bad_request", f"the header {name} is there twice")
        headers[name] = f"{headers[name]}; {value}" if name in headers else value
    return headers


def _cookies(headers: Mapping[str, str]) -> dict[str, str]:
    try:
        parsed: SimpleCookie = SimpleCookie(headers["cookie"])
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in parsed.items()}


async def _body(headers: Mapping[str, str], receive: Receive) -> bytes:
    length = headers.get("content-length")
    if length is None and "transfer-encoding" not in headers:
        return b""
    if length is not None and length.isdecimal() and int(length) > BYTE_COUNT_MAX:
        raise _too_large()
    if length == "0":
        return b""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "not_json", "send JSON: Content-Type: application/json")
    try:
        async with asyncio.timeout(BODY_S_MAX):
            return await _whole(receive)
    except TimeoutError:
        detail = f"the body did not arrive within {BODY_S_MAX:g} s"
        raise Problem(408, "too_slow", detail, headers={"connection": "close"}) from None


async def _whole(receive: Receive) -> bytes:
    parts, byte_count = [], 0
    while True:  # Until the body ends: its size is bounded here, its time by the caller.
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "bad_request", "the connection ended before the body did")
        part = message.get("body", b"")
        byte_count += len(part)
        if byte_count > BYTE_COUNT_MAX:
            raise _too_large()
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large() -> Problem:
    detail = f"the body is too large; the limit is {BYTE_COUNT_MAX:,} bytes"
    return Problem(413, "too_large", detail, headers={"connection": "close"})


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


class _Answer:
    """Adds our headers to every answer, and knows whether one has begun."""

    def __init__(self, send: Send, on_answer: Callable[[int], None]) -> None:
        self._send = send
        self._on_answer = on_answer
        self._has_begun = self._has_ended = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_begun = True
            self._on_answer(message["status"])
            headers = list(message.get("headers", ()))
            known = {name for name, _ in headers}
            headers += [header for header in API_HEADERS if header[0] not in known]
            message["headers"] = headers
        elif not message.get("more_body", False):
            self._has_ended = True
        await self._send(message)

    async def end_with(self, problem: Problem) -> None:
        if self._has_ended:  # It was told already.
            return
        if self._has_begun:  # Too late to say it: the connection is closed in the middle.
            raise problem
        body = problem.body()
        headers = {**problem.all_headers, "content-length": str(len(body))}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send(
            {"type": "http.response.start", "status": problem.status_code, "headers": raw}
        )
        await self._send({"type": "http.response.body", "body": body})
