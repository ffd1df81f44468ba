"""Who says nothing, says it slowly, or does not read, is cut off; others find a place (I20)."""

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
PLACE_COUNT = 20
# A server in this process may take for its own what would end a test that takes too long.
BOUND_S = 20.0
BEGINNING = b"GET /api/lanes HTTP/1.1\r\nHost: localhost\r\n"
KNOWN = BEGINNING + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def opened(client: Client) -> AsyncIterator[Callable[[], Awaitable[Opened]]]:
    """Makes new connections to the server, and closes them in the end."""
    where = urlsplit(client.address)
    writers = []

    async def open_one() -> Opened:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writers.append(writer)
        return reader, writer

    yield open_one
    for writer in writers:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What the server says until it closes the connection."""
    try:
        async with asyncio.timeout(BOUND_S):
            return await reader.read()
    except ConnectionError:
        return b""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S_MAX", 0.2)
    monkeypatch.setattr(connection, "STALL_S_MAX", 0.2)


@pytest.fixture
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "open_file_count_max", lambda: 2 * PLACE_COUNT)


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("said", [b"", b"G", BEGINNING], ids=["nothing", "a letter", "half"])
async def test_a_request_that_does_not_come_is_not_waited_for(client: Client, said: bytes) -> None:
    async with opened(client) as open_one:
        reader, writer = await open_one()
        writer.write(said)
        assert await ended(reader) == b""


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "begun",
    [
        BEGINNING,
        KNOWN + BEGINNING,
        b"POST /api/runs HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 900000\r\n\r\n",
    ],
    ids=["headers", "second headers", "a body that nobody wants"],
)
async def test_nor_one_that_comes_a_letter_at_a_time(client: Client, begun: bytes) -> None:
    """Each letter comes sooner than the limit, and the end never."""
    async with opened(client) as open_one:
        reader, writer = await open_one()
        writer.write(begun)
        reading = asyncio.create_task(ended(reader))
        async with asyncio.timeout(BOUND_S):
            while not reading.done():
                writer.write(b"x")
                await client.get("/healthz")
        assert (await reading).count(b"HTTP/1.1 ") <= 1


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("impatient")
async def test_an_answer_does_not_wait_for_ever_for_who_does_not_read(client: Client) -> None:
    where = urlsplit(client.address)
    wanted = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200
    with socket.socket() as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        unread.connect((where.hostname, where.port))
        unread.setblocking(False)
        unread.sendall(wanted)
        async with asyncio.timeout(BOUND_S):
            while not is_cut(unread):
                await client.get("/healthz")


def is_cut(connected: socket.socket) -> bool:
    try:
        connected.send(b"\r\n")
    except ConnectionError:
        return True
    return False


@pytest.mark.proves("I16")
@pytest.mark.usefixtures("impatient")
async def test_a_stream_without_news_is_not_taken_for_silence(client: Client) -> None:
    async with client.streamed("/api/events") as events:
        async with opened(client) as open_one:
            reader, _ = await open_one()
            assert await ended(reader) == b""  # So the limit is over.
        run_id = await client.submitted("echo")
        assert (await anext(events)).data["run_id"] == run_id


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("few_places")
async def test_who_has_not_said_who_it_is_gives_way(url: str) -> None:
    """The oldest of them, and not one that is known: that one is still there, and served."""
    async with served(url, access=ACCESS) as client, opened(client) as open_one:
        known_reader, known_writer = await open_one()
        known_writer.write(KNOWN)
        await known_reader.readuntil(b"\r\n\r\n")
        strangers = [await open_one() for _ in range(2 * PLACE_COUNT)]
        said = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/api/lanes", **said)).status == 200
        assert await ended(strangers[0][0]) == b""
        known_writer.write(KNOWN)
        assert b"HTTP/1.1 200" in await known_reader.readuntil(b"HTTP/1.1 200")
        reader, writer = strangers[-1]
        writer.write(KNOWN)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("few_places")
async def test_who_brings_a_body_slowly_gives_way_too(url: str) -> None:
    """Anybody may call `/api/session`, and take a while over it."""
    begun = (
        b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n{"
    )
    async with served(url, access=ACCESS) as client, opened(client) as open_one:
        slow = [await open_one() for _ in range(2 * PLACE_COUNT)]
        for _, writer in slow:
            writer.write(begun)
        said = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/api/lanes", **said)).status == 200
        assert await ended(slow[0][0]) == b""


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("few_places")
async def test_when_all_places_are_in_use_the_next_is_told_so(url: str) -> None:
    async with served(url, access=ACCESS) as client, opened(client) as open_one:
        said = {"authorization": f"Bearer {TOKEN}"}
        async with AsyncExitStack() as streams:
            for _ in range(PLACE_COUNT):
                await streams.enter_async_context(client.streamed("/api/events", **said))
            reader, _ = await open_one()
            told = await ended(reader)
            assert told.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 1\r\n" in told
            assert b'"code": "unavailable"' in told
        async with asyncio.timeout(BOUND_S):
            while (await called(open_one)) != 200:
                pass  # Until the server has seen them go.


async def called(open_one: Callable[[], Awaitable[Opened]]) -> int:
    reader, writer = await open_one()
    writer.write(KNOWN)
    return int((await reader.readline()).split()[1])


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        (b"GARBAGE\r\n\r\n", 400, "bad_request"),
        (BEGINNING + b"X: a\x00b\r\n\r\n", 400, "bad_request"),
        (KNOWN[:-2] + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "bad_request"),
        (b"GET /api/keys?cursor=" + b"a" * (70 << 10), 431, "headers_too_large"),
    ],
)
async def test_what_cannot_be_read_is_told_as_a_problem(
    url: str, said: bytes, status: int, code: str
) -> None:
    async with served(url, access=ACCESS) as client, opened(client) as open_one:
        reader, writer = await open_one()
        writer.write(said)
        await writer.drain()
        head, _, body = (await ended(reader)).partition(b"\r\n\r\n")
        assert f"HTTP/1.1 {status} ".encode() in head
        assert b"content-type: application/problem+json" in head.lower()
        assert (json.loads(body)["status"], json.loads(body)["code"]) == (status, code)
        assert (await client.get("/healthz")).status == 200
