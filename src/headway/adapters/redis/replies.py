"""Replies of a server, cut from all that has come: of a crowd's answers each costs little.

The driver's own reader asks the stream for every line of every reply.
"""

from typing import Any, Final

from redis._parsers import _AsyncRESP2Parser
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import InvalidResponse

READ_BYTE_COUNT: Final = 65_536
LONG_BYTE_COUNT: Final = 4 * READ_BYTE_COUNT
"""A reply that is longer is read by the driver, line by line."""
_END: Final = b"\r\n"
_BYTES, _ARRAY, _NUMBER, _WORD, _ERROR = b"$*:+-"


class _Incomplete(Exception):
    """More has to come: at least so many bytes."""

    def __init__(self, byte_count: int) -> None:
        super().__init__(byte_count)
        self.byte_count = byte_count


class Replies(_AsyncRESP2Parser):
    """What a connection of the driver reads with. It decodes nothing: replies are bytes."""

    async def read_response(self, disable_decoding: bool = False) -> Any:  # noqa: ARG002
        """The next reply; an error that the server tells of is returned, not raised."""
        while True:  # Until a whole reply has come, or the connection breaks.
            if not self._connected:
                raise ConnectionLost("the connection is closed")
            if self._buffer:
                try:
                    reply, self._pos = self._cut(self._pos)
                except _Incomplete as missing:
                    self._buffer, self._pos = self._buffer[self._pos :], 0
                    if len(self._buffer) + missing.byte_count > LONG_BYTE_COUNT:
                        # To cut it anew with each piece would cost its length squared.
                        return await super().read_response(disable_decoding=True)
                else:
                    if self._pos == len(self._buffer):
                        self._buffer, self._pos = b"", 0
                    return reply
            assert self._stream is not None  # It is there while there is a connection.
            come = await self._stream.read(READ_BYTE_COUNT)
            if not come:
                raise ConnectionLost("the server has closed the connection")
            self._buffer += come

    def _cut(self, at: int) -> tuple[Any, int]:
        """The reply that begins at `at`, and where the next one does."""
        buffer = self._buffer
        end = buffer.find(_END, at)
        if end < 0:
            raise _Incomplete(1)
        kind, rest = buffer[at], end + 2
        if kind == _BYTES:
            count = int(buffer[at + 1 : end])
            if count < 0:
                return None, rest
            after = rest + count + 2
            if len(buffer) < after:
                raise _Incomplete(after - len(buffer))
            return buffer[rest : after - 2], after
        if kind == _ARRAY:
            count = int(buffer[at + 1 : end])
            if count < 0:
                return None, rest
            replies = []
            for _ in range(count):
                reply, rest = self._cut(rest)
                replies.append(reply)
            return replies, rest
        told = buffer[at + 1 : end]
        if kind == _NUMBER:
            return int(told), rest
        if kind == _WORD:
            return told, rest
        if kind == _ERROR:
            return self._error(told), rest
        raise InvalidResponse(f"the server said {buffer[at:end]!r}")

    def _error(self, told: bytes) -> Exception:
        text = told.decode(errors="replace")
        error: Exception = self.parse_error(text)  # type: ignore[no-untyped-call]
        if isinstance(error, ConnectionLost):  # Not the answer to a call: nothing can be asked.
            raise error
        return error

    def _clear(self) -> None:
        super()._clear()  # type: ignore[no-untyped-call]
        self._pos = 0
