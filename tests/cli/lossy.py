"""A way to a server on which answers are lost."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


@asynccontextmanager
async def losing(address: str, *, answer_count: int) -> AsyncIterator[str]:
    """An address at which the first so many requests reach the server, and their answers nobody."""
    parts = urlsplit(address)
    left = answer_count

    async def pass_on(asked: asyncio.StreamReader, asker: asyncio.StreamWriter) -> None:
        nonlocal left
        head = await asked.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        body = await asked.readexactly(int(length[1]) if length else 0)
        answering, server = await asyncio.open_connection(parts.hostname, parts.port)
        server.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
        answer = await answering.read()
        server.close()
        if left > 0:
            left -= 1
        else:
            asker.write(answer)
            await asker.drain()
        asker.close()

    async with await asyncio.start_server(pass_on, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
