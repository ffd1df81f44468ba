"""The HTTP client for workers: bounded in everything (S5), and sure whose answer it has (I1).

A server that answers twice leaves an answer behind in its connection, and whoever uses that
connection next would take it for its own. So connections are only used again with workers that name
the call in their answers, as headway's own do; with all others each call has one of its own.
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

from headway.adapters.http.allowed_addresses import AllowedAddresses, NotAllowed
from headway.core.document import BYTE_COUNT_MAX
from headway.core.worker.worker_protocol import CALL_ID_HEADER, LINES
from headway.ports.worker_client import (
    WorkerAnswerUnusable,
    WorkerNotReached,
    WorkerUnreachable,
)

CONNECTION_COUNT_MAX: Final = 1_000
CONNECT_S: Final = 5.0
HEADER_BYTE_COUNT_MAX: Final = 8_190
PIECE_BYTE_COUNT_MAX: Final = 1 << 20
"""What is larger is sent piece by piece, and others have their turn meanwhile."""
LINE_COUNT_MAX_PER_S: Final = 1_000
LINES_BYTE_COUNT_MAX_PER_S: Final = 1 << 20
"""Nobody tells more of its progress, and who does is not listened to any longer."""
NAMING_COUNT_MAX: Final = 10_000

_dialled: Final[ContextVar[list[bool]]] = ContextVar("dialled")
"""Of the call in this context: filled when a connection is made for it."""


class HttpWorkerClient:
    """Connects when it is first used, and is closed by whoever made it."""

    def __init__(self, networks: Sequence[str] = (), *, token: str | None = None) -> None:
        """`token` is what workers that demand one are told."""
        self._allowed = AllowedAddresses(networks)
        self._token = token
        self._kept: aiohttp.ClientSession | None = None
        self._single: aiohttp.ClientSession | None = None
        self._naming: set[str] = set()
        """Where the last answer named its call."""

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        headers: dict[str, str],
        timeout_s: float,
        hear: Callable[[bytes], bool] | None = None,
    ) -> tuple[int, bytes]:
        accepted = {} if hear is None else {"Accept": f"application/json, {LINES}"}
        dialled: list[bool] = []
        _dialled.set(dialled)
        try:
            where = urlsplit(url)
            self._allowed.check(where.hostname or "")
            async with self._session(where.netloc).post(
                url,
                data=body if len(body) < PIECE_BYTE_COUNT_MAX else BytesIO(body),
                headers={"Content-Type": "application/json", **accepted, **headers},
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S),
                allow_redirects=False,
            ) as response:
                self._check_call(response, where.netloc, headers, is_own=bool(dialled))
                if hear is not None and response.content_type == LINES:
                    return response.status, await _heard(response, hear)
                return response.status, await _read(response)
        except aiohttp.ConnectionTimeoutError:
            limit_s = min(CONNECT_S, timeout_s)
            raise WorkerNotReached(f"cannot connect within {limit_s:g} s") from None
        except TimeoutError:
            raise WorkerUnreachable(f"no answer within {timeout_s:g} s") from None
        except NotAllowed as error:
            raise WorkerNotReached(str(error)) from None
        except aiohttp.ClientConnectorError as error:
            raise WorkerNotReached(f"cannot connect: {error.os_error}") from None
        except aiohttp.ClientResponseError as error:
            problem = f"it does not answer in HTTP: {error.message}"
            raise WorkerAnswerUnusable(problem) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WorkerUnreachable(f"{type(error).__name__}: {error}") from None

    def _check_call(
        self,
        response: aiohttp.ClientResponse,
        netloc: str,
        headers: dict[str, str],
        *,
        is_own: bool,
    ) -> None:
        """`is_own`: the connection was made for this call, and no other was made over it."""
        named, wanted = response.headers.get(CALL_ID_HEADER), headers.get(CALL_ID_HEADER)
        if named is not None and named == wanted:
            if len(self._naming) >= NAMING_COUNT_MAX:
                self._naming.clear()
            self._naming.add(netloc)
            return
        self._naming.discard(netloc)
        if named is not None or not is_own:
            response.close()
            raise WorkerAnswerUnusable(f"it answered {named or 'no call by name'}, not {wanted}")

    def _session(self, netloc: str) -> aiohttp.ClientSession:
        if netloc in self._naming:
            self._kept = self._kept or self._opened(is_kept=True)
            return self._kept
        self._single = self._single or self._opened(is_kept=False)
        return self._single

    def _opened(self, *, is_kept: bool) -> aiohttp.ClientSession:
        own = {"Accept-Encoding": "identity", "User-Agent": "headway"}
        if self._token is not None:
            own["Authorization"] = f"Bearer {self._token}"
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=self._allowed,
                socket_factory=self._dial,
                limit=CONNECTION_COUNT_MAX,
                force_close=not is_kept,
                use_dns_cache=False,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=HEADER_BYTE_COUNT_MAX,
            max_field_size=HEADER_BYTE_COUNT_MAX,
            headers=own,
        )

    def _dial(self, found: aiohttp.AddrInfoType) -> socket.socket:
        made = self._allowed.socket_for(found)
        _dialled.get().append(True)
        return made

    async def close(self) -> None:
        for session in (self._kept, self._single):
            if session is not None:
                await session.close()
        await asyncio.sleep(0)  # Their connections say goodbye in their next turn.


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    byte_count = 0
    async for chunk in response.content.iter_any():
        byte_count += len(chunk)
        _check(response, byte_count)
        chunks.append(chunk)
    return b"".join(chunks)


async def _heard(response: aiohttp.ClientResponse, hear: Callable[[bytes], bool]) -> bytes:
    """The line that is the answer; nothing, when it ends without one."""
    async for line in _lines(response):
        if not hear(line):
            return line
    return b""


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    line_count, byte_count, begun_s = 0, 0, time.monotonic()
    async for chunk in response.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        line_count, byte_count = line_count + len(whole), byte_count + len(chunk)
        allowed_s = 1 + time.monotonic() - begun_s
        if (
            line_count > allowed_s * LINE_COUNT_MAX_PER_S
            or byte_count > BYTE_COUNT_MAX + allowed_s * LINES_BYTE_COUNT_MAX_PER_S
        ):
            response.close()
            limit = f"{LINE_COUNT_MAX_PER_S:,} lines a second"
            raise WorkerAnswerUnusable(f"it reports too much progress, more than {limit}")
        for line in whole:
            yield line
        _check(response, len(rest))
    if rest:
        yield rest


def _check(response: aiohttp.ClientResponse, byte_count: int) -> None:
    if byte_count > BYTE_COUNT_MAX:
        response.close()
        raise WorkerAnswerUnusable(f"the answer is more than {BYTE_COUNT_MAX:,} bytes")
