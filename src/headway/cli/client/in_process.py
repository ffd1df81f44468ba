"""To a database: the application that a server would be, asked in this process.

So a command says and hears the same words wherever it is run. Nothing is executed here: what is
submitted waits for a process that works.
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
    def __init__(self, app: GuardMiddleware, place: str) -> None:
        self._app = app
        self.address = place

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse:
        answer = _ResponseBuffer()
        scope = _scope(method, path, body)
        scope["headers"] += [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._app(scope, _make_receive(body), answer.send)
        return ApiResponse(answer.status, b"".join(answer.parts), media_type=answer.media_type)

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        answer = _ResponseBuffer()
        scope = _scope("GET", path, None, is_event_stream=True)
        asking = asyncio.create_task(self._call_app(scope, answer))
        try:
            await answer.started.wait()
            if answer.status != 200:
                await asking
                raise to_api_error(ApiResponse(answer.status, b"".join(answer.parts)))
            yield answer.lines(asking)
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    async def _call_app(self, scope: dict[str, Any], answer: "_ResponseBuffer") -> None:
        try:
            await self._app(scope, _make_receive(None), answer.send)
        finally:
            answer.end()


class _ResponseBuffer:
    """What an application answers, while it does."""

    def __init__(self) -> None:
        self.status = 0
        self.media_type = ""
        self.parts: list[bytes] = []
        self.started = asyncio.Event()
        # One at a time: whoever reads slowly keeps the application waiting, and no memory.
        self._backpressure = asyncio.Semaphore(1)
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._is_event_stream = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            kind = dict(message["headers"]).get(b"content-type", b"")
            self.media_type = kind.partition(b";")[0].decode()
            self._is_event_stream = self.media_type == "text/event-stream"
            self.started.set()
        elif self._is_event_stream:
            await self._backpressure.acquire()
            self._chunks.put_nowait(message.get("body", b""))
        else:
            self.parts.append(message.get("body", b""))

    def end(self) -> None:
        """The application has nothing more to say, or has broken down."""
        self.started.set()
        self._chunks.put_nowait(None)

    async def lines(self, asking: "asyncio.Task[None]") -> AsyncIterator[bytes]:
        """Until the application ends, or whoever reads has seen enough; what `asking` raised."""
        rest = b""
        while (part := await self._chunks.get()) is not None:
            self._backpressure.release()
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                yield line
        await asking


def _scope(
    method: str, path: str, body: bytes | None, *, is_event_stream: bool = False
) -> dict[str, Any]:
    bare, _, query = path.partition("?")
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
        "path": unquote(bare),
        "raw_path": bare.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
    }


def _make_receive(body: bytes | None) -> Receive:
    has_said = False

    async def next_message() -> Message:
        nonlocal has_said
        if has_said:
            await asyncio.Event().wait()  # It never goes away by itself.
        has_said = True
        return {"type": "http.request", "body": body or b"", "more_body": False}

    return next_message


@asynccontextmanager
async def open_local(place: str | None) -> AsyncIterator[LocalTransport]:
    """On the database of the Headway at `place` (`module:name`), or else the configured one."""
    async with AsyncExitStack() as opened:
        hw = load_app(place)
        try:
            await opened.enter_async_context(hw.without_engine())
        except SchemaMismatch as error:
            missing = missing_sqlite_file(hw.urls)
            if place is None and missing is not None:  # To make one here is hardly meant.
                error.args = (f"there is no database {missing}; {NO_DATABASE_HINT}",)
            if place is None or error.remedy is None:
                raise
            remedy = f"{error.remedy} --app {place}"
            raise SchemaMismatch(error.problem, remedy=remedy) from None
        feed = await opened.enter_async_context(
            EventFeed(hw.store, hw.store.events, pack=encode_event)
        )
        app = build_application(
            hw, feed, Metrics(), access=Access(()), origins=Origins(()), version=version("headway")
        )
        yield LocalTransport(app, display_urls(hw.urls))
