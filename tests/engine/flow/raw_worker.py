"""A worker that is nothing but a socket: it notes what it hears, and answers as it is told to."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

CALL_ID = "headway-call-id"


@dataclass(frozen=True, slots=True)
class Heard:
    path: str
    headers: dict[str, str]
    """Their names in lower case."""
    body: Any


Serve = Callable[[Heard, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_worker(serve: Serve) -> AsyncIterator[str]:
    """Its address. `serve` is given each request of each connection, as long as that lasts."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await serve(await heard(reader), reader, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def heard(reader: asyncio.StreamReader) -> Heard:
    """The next request of a connection."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Heard(first.split(" ")[1], headers, json.loads(body))


def answer_of(body: Any, **headers: str) -> bytes:
    """A whole answer. Names of headers are written with an underline."""
    text = json.dumps(body).encode()
    named = {"Content-Length": str(len(text))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode() + text


async def asked(address: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """What a worker answers to a request of ours: its status and its body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}{path}", json=body or {}, headers=named) as answer,
    ):
        return answer.status, await answer.json()
