"""The transport to a server, over HTTP."""

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
"""How long an event stream may be silent before it counts as lost.

The server sends a ping at least every 30 s, the maximum of its `sse_ping_interval_s`.
"""
LINE_BYTE_COUNT_MAX: Final = 4 << 20
CONNECT_ERRORS: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Errors after which no connection was made, so nothing was sent."""
GATEWAY_STATUSES: Final = frozenset({502, 503, 504})


class GatewayError(aiohttp.ClientError):
    """A proxy answered instead of the server, which the proxy cannot reach."""


class HttpTransport:
    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self.address = address

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse:
        content_type = {} if body is None else {"content-type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=RESPONSE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        try:
            async with self._session.request(
                method,
                self._url(path),
                data=body,
                headers={**headers, **content_type},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                return await _read_response(response)
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
            ) as response:
                if response.status != 200:
                    raise to_api_error(await _read_response(response))
                yield _lines(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from None

    def _url(self, path: str) -> URL:
        # Already encoded: yarl must not normalize a key such as "..".
        return URL(f"{self.address}{path}", encoded=True)

    def _unreachable(self, error: Exception) -> ApiError:
        detail = f"the server {self.address} cannot be reached: {_reason(error)}"
        return ApiError(503, UNREACHABLE, detail, {})

    def _unanswered(self, error: Exception) -> ApiError:
        detail = (
            f"the answer of the server {self.address} was lost ({_reason(error)}), and the request"
            " may have taken effect; check before you repeat it"
        )
        return ApiError(503, UNANSWERED, detail, {})


def _reason(error: Exception) -> str:
    """Describe an error, with the operating system's message if there is one."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    match getattr(error, "os_error", None):
        case ConnectionRefusedError():
            return "connection refused; is headway serve running there?"
        case socket.gaierror(strerror=str(message)):
            return message
        case ssl.SSLError() as cause if not isinstance(cause, ssl.SSLCertVerificationError):
            return (
                "the TLS handshake failed; headway itself serves plain HTTP, so try http:// in"
                " HEADWAY_URL"
            )
        case OSError(errno=int(number)) as cause if not isinstance(cause, ssl.SSLError):
            return os.strerror(number)
        case _:
            return str(error)


async def _read_response(response: aiohttp.ClientResponse) -> ApiResponse:
    """Read the whole response. Raise GatewayError if a proxy answered instead of the server."""
    body = await response.read()
    location = _redirect_location(response)
    read = ApiResponse(response.status, body, location, response.content_type)
    if response.status in GATEWAY_STATUSES and to_api_error(read).code == NOT_HEADWAY:
        raise GatewayError(f"a proxy answered {response.status}")
    return read


def _redirect_location(response: aiohttp.ClientResponse) -> str | None:
    return response.headers.get("location", "") if 300 <= response.status < 400 else None


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for line in response.content:
        yield line.rstrip(b"\r\n")


def _parse_server_url(url: str) -> SplitResult:
    with suppress(ValueError):  # An invalid port, or an unclosed bracket.
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
        # The path is that of a proxy in front of the server. Accept the URL of the page, too.
        path = parts.path.rstrip("/").removesuffix("/ui")
        yield HttpTransport(session, f"{parts.scheme}://{parts.netloc}{path}")
        await asyncio.sleep(0)  # aiohttp closes sockets in the next iteration of the event loop.
