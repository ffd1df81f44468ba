"""A misbehaving worker: each service of this server responds in another wrong way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CHUNK = b"x" * 65_536
RESPONSES = {
    "redirect": (b"302 Found\r\nLocation: /exec/good", b""),
    "nan": (b"200 OK", b'{"result": NaN}'),
    "twice": (b"200 OK", b'{"result": 1, "result": 2}'),
    "list": (b"200 OK", b"[1]"),
    "text": (b"500 Oops", b"hello"),
    "object": (b"500 Oops", b'{"error": {"a": 1}}'),
    "named": (b"200 OK\r\nHeadway-Call-Id: \xff\xfe", b'{"result": 1}'),
    "good": (b"500 Oops", b'{"result": "good", "error": ""}'),
}


@asynccontextmanager
async def hostile_worker() -> AsyncIterator[str]:
    """Open the worker and yield its address. The service name selects the response."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        service = head.split(b" ", 2)[1].rpartition(b"/")[2].decode()
        await _respond(service, writer)
        await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _respond(service: str, writer: asyncio.StreamWriter) -> None:
    match service:
        case "silent":
            await asyncio.sleep(3_600)
        case "slow":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        case "endless":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            while True:
                writer.write(CHUNK)
                await writer.drain()
        case "lines":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n")
            while True:
                writer.write(b'{"progress": {"done": 1}}\n' * 1_000)
                await writer.drain()
        case "headers":
            writer.write(b"HTTP/1.1 200 OK\r\nX-Big: " + CHUNK + b"\r\n\r\n")
        case "cut":
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"result"')
        case _:
            status, body = RESPONSES.get(service, (b"nonsense", b"nonsense"))
            _write_response(writer, body, status=status)


def _write_response(writer: asyncio.StreamWriter, body: bytes, *, status: bytes) -> None:
    length = str(len(body)).encode()
    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: " + length + b"\r\n\r\n" + body)
