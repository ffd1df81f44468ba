"""A faulty connection between a browser and a server: it loses, corrupts and misrequests events."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Self
from urllib.parse import urlsplit

from playwright.async_api import Browser, Page

from tests.e2e.site import Site
from tests.e2e.viewer import Viewer

BUFFER_BYTE_COUNT: Final = 1 << 20
FAR_AHEAD: Final = 1_000_000
SNAPSHOT: Final = b"GET /api/state "
EVENT: Final = b"data: {"
GARBLED: Final = b"data: <"
STREAM: Final = re.compile(rb"GET /api/events\?after=(\d+)")


class BadLine:
    """Forwards bytes inside `async with`. It changes a response only by losing it."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self.swallows = False
        """True if data on the stream is lost."""
        self.garbles = False
        """True if the next event on the stream arrives corrupted."""
        self.holds = asyncio.Event()
        """Requests for the snapshot wait until this is set."""
        self.holds.set()
        self.asks_ahead = False
        """True if the next subscription requests events that do not exist yet."""
        self.snapshot_count = 0
        self._ends: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()
        for end in self._ends:
            end.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        is_stream = asyncio.Event()
        self._ends |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(reader, far_writer, is_stream))
                group.create_task(self._answer(far_reader, writer, is_stream))
        finally:
            self._ends -= {writer, far_writer}

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
        is_stream: asyncio.Event,
    ) -> None:
        """Read a request. A browser that only reads sends each request in one packet."""
        with suppress(ConnectionError):
            while request := await reader.read(BUFFER_BYTE_COUNT):
                if request.startswith(SNAPSHOT):
                    self.snapshot_count += 1
                    await self.holds.wait()
                stream = STREAM.match(request)
                is_stream.set() if stream else is_stream.clear()
                if stream and self.asks_ahead:
                    self.asks_ahead = False
                    ahead = b"GET /api/events?after=%d" % (int(stream[1]) + FAR_AHEAD)
                    request = ahead + request[stream.end() :]
                far_writer.write(request)
        far_writer.close()

    async def _answer(
        self,
        far_reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        is_stream: asyncio.Event,
    ) -> None:
        with suppress(ConnectionError):
            while answer := await far_reader.read(BUFFER_BYTE_COUNT):
                if self.garbles and is_stream.is_set() and EVENT in answer:
                    self.garbles = False
                    answer = answer.replace(EVENT, GARBLED)
                if not (self.swallows and is_stream.is_set()):
                    writer.write(answer)
        writer.close()


@asynccontextmanager
async def behind_a_bad_line(
    browser: Browser, site: Site
) -> AsyncIterator[tuple[BadLine, Viewer, Page]]:
    """Open the board over a faulty connection; at the end there may be no errors in the page."""
    async with BadLine(site.address) as line:
        viewer = Viewer(browser, line.address)
        yield line, viewer, await viewer.open()
        await viewer.leave()
