"""Connections that are idle, send slowly or do not read are closed, and others accepted (I20)."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import pytest

from headway.api import server
from headway.api.http import connection
from headway.api.http.access import Access, Scope, Token
from tests.api.client import Client
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")

TOKEN = "operate-operate-operate"
ACCESS = Access([Token(TOKEN, Scope.OPERATE)])
CONNECTION_COUNT = 20
# A server in this process may catch the exception that ends a test after its timeout.
BOUND_S = 20.0
BEGINNING = b"GET /api/lanes HTTP/1.1\r\nHost: localhost\r\n"
AUTHENTICATED = BEGINNING + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connection_opener(client: Client) -> AsyncIterator[Callable[[], Awaitable[Connection]]]:
    """Yield a function that opens connections to the server. All are closed on exit."""
    address_parts = urlsplit(client.address)
    writers = []

    async def connect() -> Connection:
        reader, writer = await asyncio.open_connection(address_parts.hostname, address_parts.port)
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.close()


async def read_until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes that the server sends until it closes the connection."""
    try:
        async with asyncio.timeout(BOUND_S):
            return await reader.read()
    except ConnectionError:
        return b""


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S_MAX", 0.2)
    monkeypatch.setattr(connection, "STALL_S_MAX", 0.2)


@pytest.fixture
def few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "open_file_count_max", lambda: 2 * CONNECTION_COUNT)


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("sent", [b"", b"G", BEGINNING], ids=["nothing", "a letter", "half"])
async def test_connection_without_a_complete_request_is_closed(client: Client, sent: bytes) -> None:
    async with connection_opener(client) as connect:
        reader, writer = await connect()
        writer.write(sent)
        assert await read_until_closed(reader) == b""


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize(
    "beginning",
    [
        BEGINNING,
        AUTHENTICATED + BEGINNING,
        b"POST /api/runs HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 900000\r\n\r\n",
    ],
    ids=["headers", "second headers", "a refused body"],
)
async def test_connection_that_sends_byte_by_byte_is_closed(
    client: Client, beginning: bytes
) -> None:
    """Each byte arrives within the limit, but the request never ends."""
    async with connection_opener(client) as connect:
        reader, writer = await connect()
        writer.write(beginning)
        reading = asyncio.create_task(read_until_closed(reader))
        async with asyncio.timeout(BOUND_S):
            while not reading.done():
                writer.write(b"x")
                await client.get("/healthz")
        assert (await reading).count(b"HTTP/1.1 ") <= 1


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("short_timeouts")
async def test_connection_that_does_not_read_its_answers_is_closed(client: Client) -> None:
    address_parts = urlsplit(client.address)
    requests = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200
    with socket.socket() as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        unread.connect((address_parts.hostname, address_parts.port))
        unread.setblocking(False)
        unread.sendall(requests)
        async with asyncio.timeout(BOUND_S):
            while not is_closed(unread):
                await client.get("/healthz")


def is_closed(connected: socket.socket) -> bool:
    try:
        connected.send(b"\r\n")
    except ConnectionError:
        return True
    return False


@pytest.mark.proves("I16")
@pytest.mark.usefixtures("short_timeouts")
async def test_stream_without_events_is_not_closed_as_idle(client: Client) -> None:
    async with client.open_stream("/api/events") as events:
        async with connection_opener(client) as connect:
            reader, _ = await connect()
            assert await read_until_closed(reader) == b""  # The limit has passed.
        run_id = await client.submit("echo")
        assert (await anext(events)).data["run_id"] == run_id


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("few_connections")
async def test_oldest_unauthenticated_connection_is_closed_when_there_are_too_many(
    url: str,
) -> None:
    """The oldest is closed. An authenticated connection stays open and is served."""
    async with served(url, access=ACCESS) as client, connection_opener(client) as connect:
        authenticated_reader, authenticated_writer = await connect()
        authenticated_writer.write(AUTHENTICATED)
        await authenticated_reader.readuntil(b"\r\n\r\n")
        unauthenticated = [await connect() for _ in range(2 * CONNECTION_COUNT)]
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/api/lanes", **headers)).status == 200
        assert await read_until_closed(unauthenticated[0][0]) == b""
        authenticated_writer.write(AUTHENTICATED)
        assert b"HTTP/1.1 200" in await authenticated_reader.readuntil(b"HTTP/1.1 200")
        reader, writer = unauthenticated[-1]
        writer.write(AUTHENTICATED)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("few_connections")
async def test_connection_with_a_slow_sign_in_is_closed_when_there_are_too_many(url: str) -> None:
    """`/api/session` needs no token, so a client can send its body slowly."""
    beginning = (
        b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n{"
    )
    async with served(url, access=ACCESS) as client, connection_opener(client) as connect:
        slow = [await connect() for _ in range(2 * CONNECTION_COUNT)]
        for _, writer in slow:
            writer.write(beginning)
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/api/lanes", **headers)).status == 200
        assert await read_until_closed(slow[0][0]) == b""


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("few_connections")
async def test_connection_beyond_the_limit_gets_a_503(url: str) -> None:
    async with served(url, access=ACCESS) as client, connection_opener(client) as connect:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with AsyncExitStack() as streams:
            for _ in range(CONNECTION_COUNT):
                await streams.enter_async_context(client.open_stream("/api/events", **headers))
            reader, _ = await connect()
            answer = await read_until_closed(reader)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 1\r\n" in answer
            assert b'"code": "unavailable"' in answer
        async with asyncio.timeout(BOUND_S):
            while (await fetch_status(connect)) != 200:
                pass  # Until the server has noticed that they are closed.


async def fetch_status(connect: Callable[[], Awaitable[Connection]]) -> int:
    reader, writer = await connect()
    writer.write(AUTHENTICATED)
    return int((await reader.readline()).split()[1])


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"GARBAGE\r\n\r\n", 400, "bad_request"),
        (BEGINNING + b"X: a\x00b\r\n\r\n", 400, "bad_request"),
        (AUTHENTICATED[:-2] + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "bad_request"),
        (b"GET /api/keys?cursor=" + b"a" * (70 << 10), 431, "headers_too_large"),
    ],
)
async def test_unreadable_request_is_answered_with_a_problem_document(
    url: str, sent: bytes, status: int, code: str
) -> None:
    async with served(url, access=ACCESS) as client, connection_opener(client) as connect:
        reader, writer = await connect()
        writer.write(sent)
        await writer.drain()
        head, _, body = (await read_until_closed(reader)).partition(b"\r\n\r\n")
        assert f"HTTP/1.1 {status} ".encode() in head
        assert b"content-type: application/problem+json" in head.lower()
        assert (json.loads(body)["status"], json.loads(body)["code"]) == (status, code)
        assert (await client.get("/healthz")).status == 200
