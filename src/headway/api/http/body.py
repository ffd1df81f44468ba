"""Reads request bodies, with limits on their size, time and total memory (S6, I20).

A body is read completely before a route is called, so that a slow client cannot block a route.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.types import Receive

from headway.api.http.problem import Problem, unavailable
from headway.core.document import BYTE_COUNT_MAX

BODY_S_MAX: Final = 20.0
HELD_BYTE_COUNT_MAX: Final = 64 * BYTE_COUNT_MAX
"""The maximum number of bytes that all request bodies together have in memory.

Callers without a token may send only the small body of a sign-in, so they cannot reach the limit.
"""


def has_body(headers: Mapping[str, str]) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


class BodyReader:
    """Reads request bodies, and limits the memory that all of them use together.

    The bytes of a body count from their arrival until `release` is called for the body.
    """

    def __init__(self) -> None:
        self._held_byte_count = 0

    async def read(
        self, headers: Mapping[str, str], receive: Receive, *, byte_count_max: int
    ) -> bytes:
        """Return the whole body of a request. The caller must pass it to `release` later.

        Raise a Problem if the body is refused. The caller then has nothing to release. If
        `byte_count_max` is 0, return b"" without reading the body, so it takes no memory.
        """
        if not has_body(headers):
            return b""
        length = headers.get("content-length")
        is_chunked = "transfer-encoding" in headers
        # A proxy may use the header that is ignored here, and assume that the body ends elsewhere
        # (request smuggling).
        if length is not None and is_chunked:
            detail = "send either Content-Length or Transfer-Encoding, not both"
            raise Problem(400, "bad_request", detail, headers={"connection": "close"})
        if byte_count_max == 0:
            return b""
        if length is not None and length.isdecimal() and int(length) > byte_count_max:
            raise _too_large(byte_count_max)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Problem(
                415, "not_json", "send JSON with the header Content-Type: application/json"
            )
        try:
            async with asyncio.timeout(BODY_S_MAX):
                return await self._read_all(receive, byte_count_max)
        except TimeoutError:
            detail = f"the body did not arrive within {BODY_S_MAX:g} s"
            raise Problem(408, "too_slow", detail, headers={"connection": "close"}) from None

    def release(self, body: bytes) -> None:
        self._held_byte_count -= len(body)

    async def _read_all(self, receive: Receive, byte_count_max: int) -> bytes:
        parts: list[bytes] = []
        try:
            await self._collect(parts, receive, byte_count_max)
        except BaseException:
            self._held_byte_count -= sum(map(len, parts))
            raise
        return b"".join(parts)

    async def _collect(self, parts: list[bytes], receive: Receive, byte_count_max: int) -> None:
        byte_count = 0
        while True:  # Ends with the body. Its size is limited here, its time by the caller.
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(
                    400, "bad_request", "the connection was closed before the whole body arrived"
                )
            part = message.get("body", b"")
            parts.append(part)
            byte_count += len(part)
            self._held_byte_count += len(part)
            if byte_count > byte_count_max:
                raise _too_large(byte_count_max)
            if self._held_byte_count > HELD_BYTE_COUNT_MAX:
                raise unavailable("too many large request bodies are in flight; try again")
            if not message.get("more_body", False):
                return


def _too_large(byte_count_max: int) -> Problem:
    detail = f"the body is too large; the limit is {byte_count_max:,} bytes"
    return Problem(413, "too_large", detail, headers={"connection": "close"})
