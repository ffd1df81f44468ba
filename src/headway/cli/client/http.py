"""To a server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from headway.cli.client.client import UNREACHABLE, Answer, Refused, refusal
from headway.core.errors import ConfigurationError

CONNECT_S: Final = 10.0
ANSWER_S: Final = 60.0
# A stream says something every 15 s; one that is silent for longer is dead.
SILENCE_S: Final = 45.0
LINE_BYTE_COUNT_MAX: Final = 4 << 20


class HttpTransport:
    def __init__(self, session: aiohttp.ClientSession, place: str) -> None:
        self._session = session
        self.place = place

    async def request(self, method: str, path: str, body: bytes | None) -> Answer:
        headers = {} if body is None else {"content-type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=ANSWER_S, connect=CONNECT_S)
        try:
            async with self._session.request(
                method,
                self._at(path),
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                return Answer(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from None

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=SILENCE_S)
        headers = {"accept": "text/event-stream"}
        try:
            async with self._session.get(
                self._at(path), headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    raise refusal(Answer(answer.status, await answer.read()))
                yield _lines(answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from None

    def _at(self, path: str) -> URL:
        return URL(f"{self.place}{path}", encoded=True)  # As it is: a key may be "..".

    def _unreachable(self, error: Exception) -> Refused:
        reason = "it does not answer in time" if isinstance(error, TimeoutError) else str(error)
        detail = f"the server {self.place} cannot be reached: {reason}"
        return Refused(503, UNREACHABLE, detail, {})


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for line in answer.content:
        yield line.rstrip(b"\r\n")


@asynccontextmanager
async def opened_http(url: str, token: str | None) -> AsyncIterator[HttpTransport]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ConfigurationError(
            "HEADWAY_URL must be the address of a server, such as http://127.0.0.1:8070"
        )
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        read_bufsize=LINE_BYTE_COUNT_MAX,
    ) as session:
        yield HttpTransport(session, f"{parts.scheme}://{parts.netloc}")
        await asyncio.sleep(0)  # aiohttp closes its sockets in the next turn of the loop.
