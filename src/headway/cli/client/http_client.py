"""To a server."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import SplitResult, urlsplit

import aiohttp
from yarl import URL

from headway.cli.client.api_client import (
    NOT_HEADWAY,
    UNANSWERED,
    UNREACHABLE,
    ApiError,
    ApiResponse,
    to_api_error,
)
from headway.core.errors import ConfigurationError

CONNECT_TIMEOUT_S: Final = 10.0
RESPONSE_TIMEOUT_S: Final = 60.0
READ_TIMEOUT_S: Final = 45.0
"""The server sends a ping at least every 30 s, the maximum of its `sse_ping_interval_s`."""
LINE_BYTE_COUNT_MAX: Final = 4 << 20
CONNECT_ERRORS: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""No connection was made, so nothing was sent."""
GATEWAY_STATUSES: Final = frozenset({502, 503, 504})


class GatewayError(aiohttp.ClientError):
    """A proxy has answered for a server that does not."""


class HttpTransport:
    def __init__(self, session: aiohttp.ClientSession, place: str) -> None:
        self._session = session
        self.address = place

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse:
        kind = {} if body is None else {"content-type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=RESPONSE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        try:
            async with self._session.request(
                method,
                self._url(path),
                data=body,
                headers={**headers, **kind},
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                return await _read_response(answer)
        except CONNECT_ERRORS as error:
            raise self._unreachable(error) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            if method == "GET":
                raise self._unreachable(error) from None
            raise self._unanswered(error) from None

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        timeout = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_TIMEOUT_S, sock_read=READ_TIMEOUT_S
        )
        headers = {"accept": "text/event-stream"}
        try:
            async with self._session.get(
                self._url(path), headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    raise to_api_error(await _read_response(answer))
                yield _lines(answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from None

    def _url(self, path: str) -> URL:
        return URL(f"{self.address}{path}", encoded=True)  # As it is: a key may be "..".

    def _unreachable(self, error: Exception) -> ApiError:
        detail = f"the server {self.address} cannot be reached: {_reason(error)}"
        return ApiError(503, UNREACHABLE, detail, {})

    def _unanswered(self, error: Exception) -> ApiError:
        detail = (
            f"the answer of the server {self.address} is lost ({_reason(error)}), and what was asked"
            " for may have been done: look before you repeat it"
        )
        return ApiError(503, UNANSWERED, detail, {})


def _reason(error: Exception) -> str:
    """In the words of the system where they are clearer than those of a library."""
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    match getattr(error, "os_error", None):
        case ConnectionRefusedError():
            return "connection refused; is headway serve running there?"
        case socket.gaierror(strerror=str(why)):
            return why
        case OSError(errno=int(number)) as cause if not isinstance(cause, ssl.SSLError):
            return os.strerror(number)
        case _:
            return str(error)


async def _read_response(answer: aiohttp.ClientResponse) -> ApiResponse:
    """What the server says; BehindProxy: somebody says it who is not the server."""
    body = await answer.read()
    told = ApiResponse(answer.status, body, _redirect_location(answer), answer.content_type)
    if answer.status in GATEWAY_STATUSES and to_api_error(told).code == NOT_HEADWAY:
        raise GatewayError(f"what stands before it answered {answer.status}")
    return told


def _redirect_location(answer: aiohttp.ClientResponse) -> str | None:
    return answer.headers.get("location", "") if 300 <= answer.status < 400 else None


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for line in answer.content:
        yield line.rstrip(b"\r\n")


def _parse_server_url(url: str) -> SplitResult:
    with suppress(ValueError):  # A port that is none, or half of a bracket.
        parts = urlsplit(url)
        is_host = parts.hostname and parts.port != 0 and not parts.username
        if parts.scheme in ("http", "https") and is_host and not (parts.query or parts.fragment):
            return parts
    raise ConfigurationError(
        "HEADWAY_URL must be the address of a server, such as http://127.0.0.1:8070"
    )


@asynccontextmanager
async def open_http(url: str, token: str | None) -> AsyncIterator[HttpTransport]:
    parts = _parse_server_url(url)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        read_bufsize=LINE_BYTE_COUNT_MAX,
    ) as session:
        # A path is where a proxy has put the server; who copies where the page is means the same.
        path = parts.path.rstrip("/").removesuffix("/ui")
        place = f"{parts.scheme}://{parts.netloc}{path}"
        yield HttpTransport(session, place)
        await asyncio.sleep(0)  # aiohttp closes its sockets in the next turn of the loop.
