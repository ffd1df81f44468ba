"""A worker made of a plain socket: it parses requests, and the test writes responses."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

CALL_ID = "headway-call-id"


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    path: str
    headers: dict[str, str]
    """Header names are in lower case."""
    body: Any


Serve = Callable[[WorkerRequest, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_worker(serve: Serve) -> AsyncIterator[str]:
    """Open the worker and yield its address. `serve` handles each request of a connection."""

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await serve(await read_request(reader), reader, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle_connection, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> WorkerRequest:
    """Read the next request of a connection."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return WorkerRequest(first.split(" ")[1], headers, json.loads(body))


def encode_response(body: Any, **headers: str) -> bytes:
    """Encode a complete response. Header names have `_` in place of `-`."""
    text = json.dumps(body).encode()
    all_headers = {"Content-Length": str(len(text))}
    all_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    return f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode() + text


async def post_json(address: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Send a request to a worker. Return the status and the body of its response."""
    all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}{path}", json=body or {}, headers=all_headers) as response,
    ):
        return response.status, await response.json()
