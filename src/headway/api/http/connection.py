"""HTTP connections, with limits on their number and on their idle time (I20).

uvicorn waits without limit for a request to begin or to continue, and for a client to read. A
client without a token could therefore open connections, send nothing, and lock out all others.
Here an idle or stalled connection is aborted after a time limit. When the number of connections is
at its limit, the oldest unauthenticated one is aborted to make room.

Closing a socket with unread bytes in its receive buffer makes the kernel send a reset, and a reset
discards the response that the client has not read yet. If a request was answered before its body
was read (413, for example), the server therefore drains the connection first. It sends the response
and the end of the stream, and then reads and discards the rest, within a limit of bytes and time.

A client may send requests before earlier ones are answered (pipelining). They are answered in
order. Data after a request that has to wait is stored unparsed, and no more is read.
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final, cast

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
)
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from headway.api.http.problem import Problem, headers_too_large, unavailable

HEAD_BYTE_COUNT_MAX: Final = 64 << 10
"""The maximum length of a request's headers, and of a chunk's header and the trailers."""
PARSE_BYTE_COUNT_MAX: Final = 4 << 10
"""How much data is parsed at once, which bounds the number of pipelined requests in memory."""
HEAD_S_MAX: Final = 15.0
"""How long a client may take to send the headers of its next request.

The time counts from the opening of the connection, or from the last response.
"""
STALL_S_MAX: Final = 60.0
"""How long a response waits for a client that does not read."""
DRAIN_S_MAX: Final = 5.0
"""How long a client may still send after a response that ends its connection."""
DRAIN_BYTE_COUNT_MAX: Final = 32 << 20
"""How many bytes a client may still send after a response that ends its connection."""
CONNECTION_COUNT_MAX: Final = 10_000
BACKLOG_COUNT_MAX: Final = 2_048


class ConnectionTracker:
    """Tracks the open connections of a server.

    The server calls `abort_silent` several times per second.
    """

    def __init__(self, *, open_file_count_max: int) -> None:
        # A quarter of the file descriptors is for connections that arrive before others are
        # aborted, and a quarter for the rest of the program: databases, files, and its jobs.
        self.backlog_count = min(BACKLOG_COUNT_MAX, open_file_count_max // 4)
        self._count_max = min(CONNECTION_COUNT_MAX, open_file_count_max // 2)
        self._open: set[Connection] = set()
        self._unauthenticated: dict[Connection, None] = {}
        """New connections, the oldest first. Some may have authenticated since they were added."""
        self._idle: dict[Connection, float] = {}
        """Connections that wait for a request, each with the time when the wait began, in order."""
        self._stalled: dict[Connection, float] = {}
        """Connections whose client does not read, each with the time when it stopped, in order."""
        self._checked_at_s = 0.0

    def add(self, connection: "Connection", *, now_s: float) -> bool:
        """Add a connection. Return False if the limit is reached and no room can be made.

        At the limit, another connection is aborted to make room: the oldest unauthenticated one, or
        else the one that has been idle longest.
        """
        if len(self._open) >= self._count_max and not self._make_room():
            return False
        self._open.add(connection)
        self._unauthenticated[connection] = None
        self._idle[connection] = now_s
        return True

    def remove(self, connection: "Connection") -> None:
        self._open.discard(connection)
        for connections in (self._unauthenticated, self._idle, self._stalled):
            connections.pop(connection, None)

    def mark_active(self, connection: "Connection") -> None:
        """Record that the client has sent the head of a request."""
        self._idle.pop(connection, None)

    def mark_idle(self, connection: "Connection", *, now_s: float) -> None:
        """Record that the last request of a connection was answered."""
        if connection in self._open:
            self._idle[connection] = now_s

    def mark_stalled(self, connection: "Connection", *, now_s: float) -> None:
        if connection in self._open:
            self._stalled[connection] = now_s

    def clear_stalled(self, connection: "Connection") -> None:
        self._stalled.pop(connection, None)

    def abort_silent(self, *, now_s: float) -> None:
        """Abort connections that had already been idle or stalled too long at the previous call.

        The abort is delayed by one call in case this process was suspended. The data that arrived
        in the meantime is then processed between the two calls, so its connection is not aborted.
        """
        for connections, limit_s in ((self._idle, HEAD_S_MAX), (self._stalled, STALL_S_MAX)):
            for connection, since_s in list(connections.items()):
                if since_s + limit_s > self._checked_at_s:
                    break
                self._abort(connection)
        self._checked_at_s = now_s

    def _make_room(self) -> bool:
        while self._unauthenticated:
            oldest = next(iter(self._unauthenticated))
            if not oldest.is_authenticated:
                self._abort(oldest)
                return True
            del self._unauthenticated[oldest]
        if self._idle:
            self._abort(next(iter(self._idle)))
            return True
        return False

    def _abort(self, connection: "Connection") -> None:
        self.remove(connection)
        # `close` would first wait until the client has read all pending data.
        connection.transport.abort()


class HeadTooLarge(HttpParserError):
    """The headers of a request, or other data around its body, exceed HEAD_BYTE_COUNT_MAX."""


class Connection(HttpToolsProtocol):
    """One connection of a client: uvicorn's protocol, with the limits of this module."""

    def __init__(
        self,
        connections: ConnectionTracker,
        *,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._tracker = connections
        self._begun_cycle: RequestResponseCycle | None = None
        """The last request whose task was started. Pipelined requests wait for it."""
        self._is_in_body = False
        """True from the end of a request's headers to the end of the request."""
        self._unfinished_byte_count = 0
        """The bytes received since headers, a part of a body or a request were last completed."""
        self._unparsed = b""
        """Data that is parsed once the requests before it are answered."""
        self._parse_problem: Problem | None = None
        """The response to invalid data, to be sent once the requests before it are answered."""
        self._drained_byte_count: int | None = None
        """The bytes received since the connection began to drain, or None if it does not drain."""
        self._drain_timer: asyncio.TimerHandle | None = None

    @property
    def is_authenticated(self) -> bool:
        """True if the guard has authenticated the last request of this connection."""
        begun = self._begun_cycle
        return begun is not None and "caller" in begun.scope["state"]

    def connection_made(  # type: ignore[override]  # As in uvicorn.
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        if not self._tracker.add(self, now_s=self.loop.time()):
            transport.write(_encode_response(_TOO_MANY_CONNECTIONS))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tracker.remove(self)
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        if self._begun_cycle is not None:  # uvicorn notifies only the newest request.
            self._disconnect(self._begun_cycle)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._drained_byte_count is not None:
            self._drained_byte_count += len(data)
            if self._drained_byte_count > DRAIN_BYTE_COUNT_MAX:
                self.transport.close()
        elif self._parse_problem is None:
            self._parse(self._unparsed + data)

    def _parse(self, data: bytes) -> None:
        """Parse data of the client, up to the first request that must wait for others."""
        self._unset_keepalive_if_required()
        self._unparsed = b""
        for first in range(0, len(data), PARSE_BYTE_COUNT_MAX):
            if self.pipeline:  # uvicorn has paused reading.
                self._unparsed = data[first:]
                return
            try:
                self._feed(data[first : first + PARSE_BYTE_COUNT_MAX])
            except HttpParserError as error:
                self._refuse(_to_parse_problem(error))
                return

    def _feed(self, data: bytes) -> None:
        while data:
            self._unfinished_byte_count += len(data)
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                # The upgrade is declined by a response in HTTP/1.1. The rest is parsed as usual.
                data = data[upgrade.args[0] :]
            else:
                break
        if self._unfinished_byte_count > HEAD_BYTE_COUNT_MAX:
            raise HeadTooLarge

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_body:
            return  # A trailer. The guard has not seen it, so the application must not see it.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        # The data may contain other requests, so that the exact length must be computed.
        if self._unfinished_byte_count > HEAD_BYTE_COUNT_MAX:
            length = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if length > HEAD_BYTE_COUNT_MAX:
                raise HeadTooLarge
        super().on_headers_complete()
        self._unfinished_byte_count = 0
        self._is_in_body = True

    def on_body(self, body: bytes) -> None:
        self._unfinished_byte_count = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished_byte_count = 0
        self._is_in_body = False
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        # The task has not begun. The cycle responds over this transport.
        cycle.transport = cast(asyncio.Transport, _ResponseTransport(self, cycle))
        self._begun_cycle = cycle
        self._tracker.mark_active(self)
        super()._start_asgi_task(cycle, app)

    def _refuse(self, problem: Problem) -> None:
        """Answer data that cannot be parsed, after the requests before it, and close."""
        self._parse_problem = problem
        if self._is_in_body and self.pipeline:
            # The newest request, which has not begun, has the invalid body.
            self.pipeline.popleft()
            assert self._begun_cycle is not None
            self.cycle = self.pipeline[0][0] if self.pipeline else self._begun_cycle
        elif self._is_in_body and not self.cycle.response_complete:
            self._disconnect(self.cycle)  # Discards the rest of the response.
            if self.cycle.response_started:
                self.drain_and_close()
                return
            self.cycle.response_complete = True
        if self._is_answered:
            self._send_parse_problem(problem)
        else:
            self.flow.pause_reading()

    @property
    def _is_answered(self) -> bool:
        """True if all requests are answered. They are answered in order."""
        newest: RequestResponseCycle | None = self.cycle
        return newest is None or newest.response_complete

    def _send_parse_problem(self, problem: Problem) -> None:
        self.transport.write(_encode_response(problem))
        self.drain_and_close()

    def _disconnect(self, cycle: RequestResponseCycle) -> None:
        cycle.disconnected = True
        cycle.message_event.set()

    def drain_and_close(self) -> None:
        """Close the connection once the client has read the response, or a limit is reached.

        The transport closes itself when the client closes its side.
        """
        if self.transport.is_closing() or self._drained_byte_count is not None:
            return
        self._drained_byte_count = 0
        self._drain_timer = self.loop.call_later(DRAIN_S_MAX, self.transport.close)
        self.transport.write_eof()
        self.flow.resume_reading()

    def shutdown(self) -> None:
        if self._drained_byte_count is None:
            super().shutdown()
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        self._tracker.mark_idle(self, now_s=self.loop.time())
        super().on_response_complete()
        if self._drained_byte_count is not None:
            self._unset_keepalive_if_required()
        elif not self._is_answered or self.transport.is_closing():
            return
        elif self._parse_problem is not None:
            self._send_parse_problem(self._parse_problem)
        elif self._unparsed:
            self._parse(self._unparsed)

    def pause_writing(self) -> None:
        self._tracker.mark_stalled(self, now_s=self.loop.time())
        super().pause_writing()

    def resume_writing(self) -> None:
        self._tracker.clear_stalled(self)
        super().resume_writing()


class _ResponseTransport:
    """The transport over which one response is sent.

    If the client is still sending its request body, `close` drains the connection.
    """

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing

    def close(self) -> None:
        if self._cycle.response_complete and self._cycle.more_body:
            self._connection.drain_and_close()
        else:
            self._connection.transport.close()


def _to_parse_problem(error: HttpParserError) -> Problem:
    if isinstance(error, HeadTooLarge) or isinstance(error.__context__, HeadTooLarge):
        return headers_too_large()
    if isinstance(error, HttpParserInvalidMethodError):
        detail = "the request is not HTTP/1.1, or its method is unknown"
        return Problem(400, "bad_request", detail)
    # uvicorn parses the target of the request in a callback of the parser.
    is_target = isinstance(error, HttpParserCallbackError)
    reason = "the target is invalid" if is_target else str(error)
    return Problem(400, "bad_request", f"the request is not HTTP/1.1: {reason}")


def _encode_response(problem: Problem) -> bytes:
    """Return the bytes of a response that ends its connection."""
    body = problem.body()
    headers = {**problem.all_headers, "connection": "close", "content-length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    phrase = HTTPStatus(problem.status_code).phrase
    return f"HTTP/1.1 {problem.status_code} {phrase}\r\n{lines}\r\n".encode() + body


_TOO_MANY_CONNECTIONS: Final = unavailable(
    "too many connections are open, and all of them are in use; try again"
)
