"""Clients of the stream that ask for it, and then read no more."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

RECEIVE_BYTE_COUNT: Final = 4_096


@asynccontextmanager
async def stalled_streams(
    address: str, count: int, *, after: int
) -> AsyncIterator[list[socket.socket]]:
    lines = [await _stalled_stream(address, after) for _ in range(count)]
    try:
        yield lines
    finally:
        for line in lines:
            line.close()


async def _stalled_stream(address: str, after: int) -> socket.socket:
    """One that has read the first line of the answer. The system keeps little for it."""
    where = urlsplit(address)
    assert where.hostname is not None
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTE_COUNT)
    line.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(line, (where.hostname, where.port))
    asked = (
        f"GET /api/events?after={after} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Accept: text/event-stream\r\n\r\n"
    )
    await loop.sock_sendall(line, asked.encode())
    assert b"200" in await loop.sock_recv(line, 15)
    return line


def unread_byte_count(line: socket.socket) -> int:
    """What the system holds for it, on both of its ends."""
    port = f"{line.getsockname()[1]:04X}"
    count = 0
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = row.split()
        sent, received = queues.split(":")
        if local.endswith(f":{port}"):
            count += int(received, 16)
        elif remote.endswith(f":{port}"):
            count += int(sent, 16)
    return count
