"""The transport to a database: it calls the server's ASGI application in this process.

A command therefore behaves in the same way with and without a server. No job is executed in this
process: submitted runs wait for a process that executes jobs.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import unquote

from starlette.types import Message, Receive

from headway.api.application import build_application
from headway.api.http.access import Access
from headway.api.http.origin import Origins
from headway.api.http.request_guard import GuardMiddleware
from headway.api.routes.event_routes import encode_event
from headway.api.routes.metrics import Metrics
from headway.bootstrap import display_urls, missing_sqlite_file
from headway.cli.client.api_client import ApiResponse, to_api_error
from headway.cli.load_app import load_app
from headway.core.errors import SchemaMismatch
from headway.services.upkeep.event_feed import EventFeed

NO_DATABASE_HINT: Final = (
    "start headway serve or your program there, or name a server with HEADWAY_URL"
)


class LocalTransport:
    def __init__(self, app: GuardMiddleware, address: str) -> None:
        self._app = app
        self.address = address

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse:
        response = _ResponseBuffer()
        scope = _scope(method, path, body)
        scope["headers"] += [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._app(scope, _make_receive(body), response.send)
        content = b"".join(response.parts)
        return ApiResponse(response.status, content, media_type=response.media_type)

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        response = _ResponseBuffer()
        scope = _scope("GET", path, None, is_event_stream=True)
        call = asyncio.create_task(self._call_app(scope, response))
        try:
            await response.started.wait()
            if response.status != 200:
                await call
                raise to_api_error(ApiResponse(response.status, b"".join(response.parts)))
            yield response.lines(call)
        finally:
            call.cancel()
            await asyncio.wait([call])

    async def _call_app(self, scope: dict[str, Any], response: "_ResponseBuffer") -> None:
        try:
            await self._app(scope, _make_receive(None), response.send)
        finally:
            response.end()


class _ResponseBuffer:
    """Receives the response of an ASGI application while the application sends it."""

    def __init__(self) -> None:
        self.status = 0
        self.media_type = ""
        self.parts: list[bytes] = []
        self.started = asyncio.Event()
        # One chunk at a time: a slow reader blocks the application instead of filling memory.
        self._backpressure = asyncio.Semaphore(1)
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._is_event_stream = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            content_type = dict(message["headers"]).get(b"content-type", b"")
            self.media_type = content_type.partition(b";")[0].decode()
            self._is_event_stream = self.media_type == "text/event-stream"
            self.started.set()
        elif self._is_event_stream:
            await self._backpressure.acquire()
            self._chunks.put_nowait(message.get("body", b""))
        else:
            self.parts.append(message.get("body", b""))

    def end(self) -> None:
        """Mark the end of the response, even if the application has raised an error."""
        self.started.set()
        self._chunks.put_nowait(None)

    async def lines(self, call: "asyncio.Task[None]") -> AsyncIterator[bytes]:
        """Yield lines until the application ends. Then raise the error of `call`, if it failed."""
        rest = b""
        while (chunk := await self._chunks.get()) is not None:
            self._backpressure.release()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line
        await call


def _scope(
    method: str, path: str, body: bytes | None, *, is_event_stream: bool = False
) -> dict[str, Any]:
    raw_path, _, query = path.partition("?")
    headers = [(b"host", b"localhost")]
    if body is not None:
        length = str(len(body)).encode()
        headers += [(b"content-type", b"application/json"), (b"content-length", length)]
    if is_event_stream:
        headers.append((b"accept", b"text/event-stream"))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
    }


def _make_receive(body: bytes | None) -> Receive:
    has_sent = False

    async def next_message() -> Message:
        nonlocal has_sent
        if has_sent:
            await asyncio.Event().wait()  # This client never disconnects by itself.
        has_sent = True
        return {"type": "http.request", "body": body or b"", "more_body": False}

    return next_message


@asynccontextmanager
async def open_local(target: str | None) -> AsyncIterator[LocalTransport]:
    """Open a transport to the database of the Headway at `target` (`module:name`).

    If `target` is None, use the configured Headway, or else the configured database.
    """
    async with AsyncExitStack() as stack:
        hw = load_app(target)
        try:
            await stack.enter_async_context(hw.without_engine())
        except SchemaMismatch as error:
            missing = missing_sqlite_file(hw.urls)
            if target is None and missing is not None:  # Do not suggest to create one here.
                error.args = (f"there is no database {missing}; {NO_DATABASE_HINT}",)
            if target is None or error.remedy is None:
                raise
            remedy = f"{error.remedy} --app {target}"
            raise SchemaMismatch(error.problem, remedy=remedy) from None
        feed = await stack.enter_async_context(
            EventFeed(hw.store, hw.store.events, pack=encode_event)
        )
        app = build_application(
            hw, feed, Metrics(), access=Access(()), origins=Origins(()), version=version("headway")
        )
        yield LocalTransport(app, display_urls(hw.urls))
