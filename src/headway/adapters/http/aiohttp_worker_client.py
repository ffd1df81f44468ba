"""The HTTP client for workers, with limits (S5) and a check that answers match calls (I1).

A server that answers twice leaves the second answer in the connection, and the next call over that
connection would receive it. So connections are reused only for workers that name the call in their
answers, as headway's own workers do. All other workers get a new connection for each call.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from io import BytesIO
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from headway.adapters.http.allowed_addresses import AddressNotAllowed, AllowedAddresses
from headway.core.document import BYTE_COUNT_MAX
from headway.core.worker.worker_protocol import CALL_ID_HEADER, NDJSON_MEDIA_TYPE
from headway.ports.workers import (
    InvalidWorkerResponse,
    WorkerCallFailed,
    WorkerConnectFailed,
)

CONNECTION_COUNT_MAX: Final = 1_000
CONNECT_TIMEOUT_S: Final = 5.0
HEADER_BYTE_COUNT_MAX: Final = 8_190
CHUNK_BYTE_COUNT_MAX: Final = 1 << 20
"""A body of this size or more is sent in chunks, so that it does not block the event loop."""
LINE_COUNT_MAX_PER_S: Final = 1_000
LINES_BYTE_COUNT_MAX_PER_S: Final = 1 << 20
"""A call fails if its worker's progress exceeds this rate or LINE_COUNT_MAX_PER_S."""
REUSABLE_HOST_COUNT_MAX: Final = 10_000

_made_connections: Final[ContextVar[list[bool]]] = ContextVar("made_connections")
"""A list with one item for each connection that was opened for the current call."""


class HttpWorkerClient:
    """A `WorkerClient` that connects on first use. Its creator must close it."""

    def __init__(self, networks: Sequence[str] = (), *, token: str | None = None) -> None:
        """Create the client. `token` is sent to all workers as a bearer token."""
        self._allowed = AllowedAddresses(networks)
        self._token = token
        self._pooled_session: aiohttp.ClientSession | None = None
        self._single_use_session: aiohttp.ClientSession | None = None
        self._reusable_hosts: set[str] = set()
        """Hosts whose last answer named its call."""

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        headers: dict[str, str],
        timeout_s: float,
        on_line: Callable[[bytes], bool] | None = None,
    ) -> tuple[int, bytes]:
        accept = {} if on_line is None else {"Accept": f"application/json, {NDJSON_MEDIA_TYPE}"}
        made_connections: list[bool] = []
        _made_connections.set(made_connections)
        try:
            parts = urlsplit(url)
            self._allowed.check_host(parts.hostname or "")
            async with self._session_for(parts.netloc).post(
                url,
                data=body if len(body) < CHUNK_BYTE_COUNT_MAX else BytesIO(body),
                headers={"Content-Type": "application/json", **accept, **headers},
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S),
                allow_redirects=False,
            ) as response:
                self._check_call_id(
                    response, parts.netloc, headers, is_new_connection=bool(made_connections)
                )
                if on_line is not None and response.content_type == NDJSON_MEDIA_TYPE:
                    return response.status, await _read_final_line(response, on_line)
                return response.status, await _read_body(response)
        except aiohttp.ConnectionTimeoutError:
            limit_s = min(CONNECT_TIMEOUT_S, timeout_s)
            raise WorkerConnectFailed(f"cannot connect within {limit_s:g} s") from None
        except TimeoutError:
            raise WorkerCallFailed(f"no answer within {timeout_s:g} s") from None
        except AddressNotAllowed as error:
            raise WorkerConnectFailed(str(error)) from None
        except aiohttp.ClientConnectorError as error:
            raise WorkerConnectFailed(f"cannot connect: {error.os_error}") from None
        except aiohttp.ClientResponseError as error:
            problem = f"the answer is not valid HTTP: {error.message}"
            raise InvalidWorkerResponse(problem) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WorkerCallFailed(f"{type(error).__name__}: {error}") from None

    def _check_call_id(
        self,
        response: aiohttp.ClientResponse,
        netloc: str,
        headers: dict[str, str],
        *,
        is_new_connection: bool,
    ) -> None:
        """Raise InvalidWorkerResponse if the answer may belong to another call.

        `is_new_connection` means that the connection was made for this call and carried no other
        call.
        """
        answered_id, call_id = response.headers.get(CALL_ID_HEADER), headers.get(CALL_ID_HEADER)
        if answered_id is not None and answered_id == call_id:
            if len(self._reusable_hosts) >= REUSABLE_HOST_COUNT_MAX:
                self._reusable_hosts.clear()
            self._reusable_hosts.add(netloc)
            return
        self._reusable_hosts.discard(netloc)
        if answered_id is not None or not is_new_connection:
            response.close()
            problem = f"the answer names {answered_id or 'no call'}, not call {call_id}"
            raise InvalidWorkerResponse(problem)

    def _session_for(self, netloc: str) -> aiohttp.ClientSession:
        if netloc in self._reusable_hosts:
            self._pooled_session = self._pooled_session or self._open_session(is_pooled=True)
            return self._pooled_session
        self._single_use_session = self._single_use_session or self._open_session(is_pooled=False)
        return self._single_use_session

    def _open_session(self, *, is_pooled: bool) -> aiohttp.ClientSession:
        headers = {"Accept-Encoding": "identity", "User-Agent": "headway"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=self._allowed,
                socket_factory=self._make_socket,
                limit=CONNECTION_COUNT_MAX,
                force_close=not is_pooled,
                use_dns_cache=False,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=HEADER_BYTE_COUNT_MAX,
            max_field_size=HEADER_BYTE_COUNT_MAX,
            headers=headers,
        )

    def _make_socket(self, address_info: aiohttp.AddrInfoType) -> socket.socket:
        made_socket = self._allowed.make_socket(address_info)
        _made_connections.get().append(True)
        return made_socket

    async def close(self) -> None:
        for session in (self._pooled_session, self._single_use_session):
            if session is not None:
                await session.close()
        await asyncio.sleep(0)  # Transports close in the next iteration of the event loop.


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    byte_count = 0
    async for chunk in response.content.iter_any():
        byte_count += len(chunk)
        _check_size(response, byte_count)
        chunks.append(chunk)
    return b"".join(chunks)


async def _read_final_line(
    response: aiohttp.ClientResponse, on_line: Callable[[bytes], bool]
) -> bytes:
    """Return the line with the answer, or empty bytes if the response ends without one."""
    async for line in _iterate_lines(response):
        if not on_line(line):
            return line
    return b""


async def _iterate_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    line_count, byte_count, started_s = 0, 0, time.monotonic()
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        line_count, byte_count = line_count + len(lines), byte_count + len(chunk)
        allowed_s = 1 + time.monotonic() - started_s
        if (
            line_count > allowed_s * LINE_COUNT_MAX_PER_S
            or byte_count > BYTE_COUNT_MAX + allowed_s * LINES_BYTE_COUNT_MAX_PER_S
        ):
            response.close()
            limits = f"{LINE_COUNT_MAX_PER_S:,} lines or {LINES_BYTE_COUNT_MAX_PER_S:,} bytes"
            raise InvalidWorkerResponse(f"too much progress, more than {limits} per second")
        for line in lines:
            yield line
        _check_size(response, len(rest))
    if rest:
        yield rest


def _check_size(response: aiohttp.ClientResponse, byte_count: int) -> None:
    if byte_count > BYTE_COUNT_MAX:
        response.close()
        raise InvalidWorkerResponse(f"the answer is longer than {BYTE_COUNT_MAX:,} bytes")
