"""Stream clients that send a request and then stop reading."""

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
    connections = [await _open_stalled_stream(address, after) for _ in range(count)]
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


async def _open_stalled_stream(address: str, after: int) -> socket.socket:
    """Open a stream and read its status line. Its receive buffer is small."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTE_COUNT)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, (parts.hostname, parts.port))
    request = (
        f"GET /api/events?after={after} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Accept: text/event-stream\r\n\r\n"
    )
    await loop.sock_sendall(connection, request.encode())
    assert b"200" in await loop.sock_recv(connection, 15)
    return connection


def unread_byte_count(connection: socket.socket) -> int:
    """Return the bytes that the system buffers for the connection, at both ends."""
    port = f"{connection.getsockname()[1]:04X}"
    count = 0
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = row.split()
        sent, received = queues.split(":")
        if local.endswith(f":{port}"):
            count += int(received, 16)
        elif remote.endswith(f":{port}"):
            count += int(sent, 16)
    return count
