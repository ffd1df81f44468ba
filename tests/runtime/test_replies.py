"""Replies are whole however they come in, and in the order in which they were sent (R4.12)."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest
from redis.exceptions import BusyLoadingError, InvalidResponse, NoScriptError, ResponseError
from redis.exceptions import ConnectionError as ConnectionLost

from headway.adapters.redis.replies import LONG_BYTE_COUNT, Replies

SENT: Final = (
    b"$8\r\nresolved\r\n"
    b"$0\r\n\r\n"
    b"$-1\r\n"
    b":-42\r\n"
    b"+OK\r\n"
    b"*-1\r\n"
    b"*0\r\n"
    b"*3\r\n$8\r\nsmessage\r\n$4\r\n\r\n\r\n\r\n*2\r\n:1\r\n$-1\r\n"
)
READ: Final = [
    b"resolved", b"", None, -42, b"OK", None, [], [b"smessage", b"\r\n\r\n", [1, None]],
]  # fmt: skip


def reading() -> tuple[Replies, asyncio.StreamReader]:
    stream = asyncio.StreamReader()
    replies = Replies(socket_read_size=1)
    replies.on_connect(SimpleNamespace(_reader=stream, encoder=None))  # type: ignore[no-untyped-call]
    return replies, stream


async def read(replies: Replies, count: int) -> list[Any]:
    return [await replies.read_response() for _ in range(count)]


@pytest.mark.parametrize("size", [*range(1, 24), len(SENT)])
async def test_r4_12_replies_are_whole_in_whatever_pieces_they_come(size: int) -> None:
    replies, stream = reading()
    async with asyncio.TaskGroup() as group:
        heard = group.create_task(read(replies, len(READ)))
        for first in range(0, len(SENT), size):
            stream.feed_data(SENT[first : first + size])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert heard.result() == READ
    assert not await replies.can_read()  # Nothing is left over.


@pytest.mark.parametrize(
    "lengths", [[200_000], [LONG_BYTE_COUNT + 1], [70_000, 500_000, 3], [1_000] * 1_000]
)
async def test_r4_12_a_long_reply_is_whole_and_the_next_is_read(lengths: list[int]) -> None:
    replies, stream = reading()
    texts = [bytes(range(256)) * (length // 256) + b"\r\n" for length in lengths]
    parts = b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)
    stream.feed_data(b":1\r\n*%d\r\n%b:7\r\n" % (len(texts), parts))
    assert await read(replies, 3) == [1, texts, 7]
    assert not await replies.can_read()


async def test_r4_12_a_refusal_is_a_reply_and_the_next_is_read() -> None:
    replies, stream = reading()
    stream.feed_data(b"-NOSCRIPT No matching script.\r\n-ERR no\r\n+OK\r\n")
    unknown, refused, fine = await read(replies, 3)
    assert isinstance(unknown, NoScriptError)
    assert type(refused) is ResponseError
    assert fine == b"OK"


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        (b"", ConnectionLost),
        (b"$8\r\nreso", ConnectionLost),
        (b"-LOADING not yet\r\n", BusyLoadingError),
        (b"?5\r\n", InvalidResponse),
    ],
    ids=["closed", "cut off", "loading", "not Redis"],
)
async def test_i22_what_is_no_reply_is_a_fault(sent: bytes, fault: type[Exception]) -> None:
    replies, stream = reading()
    stream.feed_data(sent)
    stream.feed_eof()
    with pytest.raises(fault):
        await replies.read_response()


async def test_i22_what_was_left_of_a_lost_connection_is_not_read_on_the_next() -> None:
    replies, stream = reading()
    stream.feed_data(b"+OK\r\n+of the old one\r\n")
    assert await replies.read_response() == b"OK"
    replies.on_disconnect()  # type: ignore[no-untyped-call]
    with pytest.raises(ConnectionLost):
        await replies.read_response()
    again = asyncio.StreamReader()
    replies.on_connect(SimpleNamespace(_reader=again, encoder=None))  # type: ignore[no-untyped-call]
    again.feed_data(b"+of the new one\r\n")
    assert await replies.read_response() == b"of the new one"
