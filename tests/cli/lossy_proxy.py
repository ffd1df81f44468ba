"""A proxy that drops the answers of a server."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


@asynccontextmanager
async def drop_answers(address: str, *, answer_count: int) -> AsyncIterator[str]:
    """Yield the address of a proxy that forwards every request but drops the first answers."""
    parts = urlsplit(address)
    drop_count = answer_count

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal drop_count
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port)
        server_writer.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
        answer = await server_reader.read()
        server_writer.close()
        if drop_count > 0:
            drop_count -= 1
        else:
            writer.write(answer)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(forward, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
