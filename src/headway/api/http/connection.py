"""Connections: how many there may be, how long each may say nothing, and who gives way (I20).

uvicorn waits for ever for a request to begin or to go on, and for a client to read. So who opens
connections and says nothing would lock everybody out, without any token. Here silence has an end,
and when all places are taken, the oldest connection goes that has not said who it is.

Closing a socket with unread bytes in its receive buffer makes the kernel send a reset, and a reset
discards the answer that the client has not read yet. If a request was answered before its body was
read (413, for example), the server therefore drains the connection first. It sends the answer and
the end of the stream, and then reads and discards the rest, within a limit of bytes and time.
"""

import asyncio
import sys
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from headway.api.http.problem import Problem, headers_too_large, unavailable

HEAD_S_MAX: Final = 15.0
"""From the opening, or the last answer, to the end of the next request's headers."""
STALL_S_MAX: Final = 60.0
"""How long an answer waits for a client that does not read."""
DRAIN_S_MAX: Final = 5.0
DRAIN_BYTE_COUNT_MAX: Final = 32 << 20
"""How long and how much a client may still send after an answer that ends its connection."""
CONNECTION_COUNT_MAX: Final = 10_000
BACKLOG_COUNT_MAX: Final = 2_048


class Connections:
    """All that are open in one server. `look` is to be called several times a second."""

    def __init__(self, *, open_file_count_max: int) -> None:
        # A quarter is for those that arrive before anybody is sent away, a quarter for the rest of
        # the program: its databases, its files, what its jobs open.
        self.backlog_count = min(BACKLOG_COUNT_MAX, open_file_count_max // 4)
        self._count_max = min(CONNECTION_COUNT_MAX, open_file_count_max // 2)
        self._open: set[Connection] = set()
        self._strangers: dict[Connection, None] = {}
        """The oldest first. Some may have become known meanwhile."""
        self._waiting: dict[Connection, float] = {}
        """Without a request, and since when; the longest first."""
        self._stalled: dict[Connection, float] = {}
        """With a client that does not read, and since when; the longest first."""
        self._looked_at_s = 0.0

    def enter(self, connection: "Connection", *, now_s: float) -> bool:
        """Whether there is a place for it; somebody else may have to go."""
        if len(self._open) >= self._count_max and not self._make_room():
            return False
        self._open.add(connection)
        self._strangers[connection] = None
        self._waiting[connection] = now_s
        return True

    def leave(self, connection: "Connection") -> None:
        self._open.discard(connection)
        for place in (self._strangers, self._waiting, self._stalled):
            place.pop(connection, None)

    def begin(self, connection: "Connection") -> None:
        """It has sent the head of a request."""
        self._waiting.pop(connection, None)

    def end(self, connection: "Connection", *, now_s: float) -> None:
        """It was answered."""
        if connection in self._open:
            self._waiting[connection] = now_s

    def stall(self, connection: "Connection", *, now_s: float) -> None:
        if connection in self._open:
            self._stalled[connection] = now_s

    def go_on(self, connection: "Connection") -> None:
        self._stalled.pop(connection, None)

    def look(self, *, now_s: float) -> None:
        """End those that have been silent for too long.

        They were already when this was called before: so one whose words came while this process
        stood still is heard first.
        """
        for place, limit_s in ((self._waiting, HEAD_S_MAX), (self._stalled, STALL_S_MAX)):
            for connection, since_s in list(place.items()):
                if since_s + limit_s > self._looked_at_s:
                    break
                self._dismiss(connection)
        self._looked_at_s = now_s

    def _make_room(self) -> bool:
        while self._strangers:
            oldest = next(iter(self._strangers))
            if not oldest.is_known:
                self._dismiss(oldest)
                return True
            del self._strangers[oldest]
        if self._waiting:
            self._dismiss(next(iter(self._waiting)))
            return True
        return False

    def _dismiss(self, connection: "Connection") -> None:
        self.leave(connection)
        # Not closed in good order: what it has not read would have to be sent first.
        connection.transport.abort()


class Connection(H11Protocol):
    def __init__(
        self,
        connections: Connections,
        *,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = connections
        self._noted: dict[str, Any] = {}
        """What the guard notes of the last request."""
        self._drained_byte_count: int | None = None
        """The bytes received since the connection began to drain, or None if it does not drain."""
        self._drain_timer: asyncio.TimerHandle | None = None

    @property
    def is_known(self) -> bool:
        """Whether the guard has found out who it is, by its last request."""
        return "caller" in self._noted

    def connection_made(  # type: ignore[override]  # As in uvicorn.
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        if not self._all.enter(self, now_s=self.loop.time()):
            transport.write(_raw(_FULL))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self)
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._drained_byte_count is None:
            super().data_received(data)
            return
        self._drained_byte_count += len(data)
        if self._drained_byte_count > DRAIN_BYTE_COUNT_MAX:
            self.transport.close()

    def close_drained(self) -> None:
        """Close the connection once the client has read the answer, or the limits are reached.

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

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            # Its task has not begun. It will find this transport when it ends the answer.
            self.cycle.transport = cast(asyncio.Transport, _AnswerTransport(self, self.cycle))
            self._noted = self.scope["state"]
            self._all.begin(self)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Called where what is wrong was caught; `msg` says less than we do."""
        cycle: RequestResponseCycle | None = self.cycle
        is_answering = cycle is not None and cycle.response_started and not cycle.response_complete
        if not is_answering:
            self.transport.write(_raw(_unreadable(sys.exc_info()[1])))
        if cycle is not None:
            cycle.disconnected = True  # Whatever it has yet to say, nobody hears.
        self.close_drained()

    def on_response_complete(self) -> None:
        self._all.end(self, now_s=self.loop.time())
        super().on_response_complete()
        if self._drained_byte_count is not None:
            self._unset_keepalive_if_required()

    def pause_writing(self) -> None:
        self._all.stall(self, now_s=self.loop.time())
        super().pause_writing()

    def resume_writing(self) -> None:
        self._all.go_on(self)
        super().resume_writing()


class _AnswerTransport:
    """The transport of one answer. Closing it lets a client that still sends finish."""

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing

    def close(self) -> None:
        if self._cycle.response_complete and self._cycle.more_body:
            self._connection.close_drained()
        else:
            self._connection.transport.close()


def _unreadable(error: BaseException | None) -> Problem:
    if getattr(error, "error_status_hint", 400) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return headers_too_large()
    return Problem(400, "bad_request", f"the request is not HTTP/1.1: {error}")


def _raw(problem: Problem) -> bytes:
    """An answer that nothing comes after."""
    body = problem.body()
    headers = {**problem.all_headers, "connection": "close", "content-length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    phrase = HTTPStatus(problem.status_code).phrase
    return f"HTTP/1.1 {problem.status_code} {phrase}\r\n{lines}\r\n".encode() + body


_FULL: Final = unavailable("too many connections are open, and all of them are in use")
