"""The HTTP client for workers: one pool for the process, bounded in everything (S5)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from headway.adapters.http.allowed import AllowedAddresses, NotAllowed
from headway.core.document import BYTE_COUNT_MAX
from headway.ports.worker_client import WorkerUnreachable

CONNECTION_COUNT_MAX: Final = 1_000
CONNECT_S: Final = 5.0
HEADER_BYTE_COUNT_MAX: Final = 8_190
LINES: Final = "application/x-ndjson"


class HttpWorkerClient:
    """Connects when it is first used, and is closed by whoever made it."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        self._allowed = AllowedAddresses(networks)
        self._session: aiohttp.ClientSession | None = None

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
        try:
            self._allowed.check(urlsplit(url).hostname or "")
            async with self._opened().post(
                url,
                data=body,
                headers={"Content-Type": "application/json", **accepted, **headers},
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S),
                allow_redirects=False,
            ) as response:
                if hear is not None and response.content_type == LINES:
                    return response.status, await _heard(response, hear)
                return response.status, await _read(response)
        except TimeoutError:
            raise WorkerUnreachable(f"no answer within {timeout_s:g} s") from None
        except NotAllowed as error:
            raise WorkerUnreachable(str(error)) from None
        except aiohttp.ClientConnectorError as error:
            raise WorkerUnreachable(f"cannot connect: {error.os_error}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WorkerUnreachable(f"{type(error).__name__}: {error}") from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=self._allowed,
                    limit=CONNECTION_COUNT_MAX,
                    use_dns_cache=False,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                max_line_size=HEADER_BYTE_COUNT_MAX,
                max_field_size=HEADER_BYTE_COUNT_MAX,
                headers={"Accept-Encoding": "identity", "User-Agent": "headway"},
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)  # Its connections say goodbye in their next turn.


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
    async for chunk in response.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        _check(response, len(rest))
    if rest:
        yield rest


def _check(response: aiohttp.ClientResponse, byte_count: int) -> None:
    if byte_count > BYTE_COUNT_MAX:
        response.close()
        raise WorkerUnreachable(f"the answer is more than {BYTE_COUNT_MAX:,} bytes")
