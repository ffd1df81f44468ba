"""A TCP proxy that cuts a connection at a chosen packet.

It has a thread and an event loop of its own, so it continues while the code under test blocks. A
packet is what one read returns: the clients here send a request and wait for its answer.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final

BUFFER_BYTE_COUNT: Final = 1 << 20


class Direction(Enum):
    TO_SERVER = "to the server"
    """The request is lost: the server never receives it."""
    TO_CLIENT = "to the client"
    """The answer is lost: the server has executed the request."""


@dataclass(slots=True)
class _Cut:
    direction: Direction
    left_count: int


class CuttingProxy:
    """Forwards connections to a server. `arm` and `is_cut` may be called from any thread."""

    def __init__(self, host: str, port: int) -> None:
        self._server_address = host, port
        self._lock = threading.Lock()
        self._cut: _Cut | None = None
        self.port = 0

    def arm(self, direction: Direction, number: int) -> None:
        """Lose the packet of this number (from 1) in this direction, and cut its connection."""
        with self._lock:
            self._cut = _Cut(direction, number)

    def disarm(self) -> bool:
        """Return whether the cut was made; none is made from now on."""
        with self._lock:
            was_cut = self._cut is None
            self._cut = None
        return was_cut

    @contextmanager
    def run(self) -> Iterator["CuttingProxy"]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="cutting-proxy", daemon=True)
        thread.start()
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._forward, self._server_address[0], 0), loop
        ).result()
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._end(server), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._server_address)
        pumps = [
            asyncio.create_task(self._pump(reader, far_writer, Direction.TO_SERVER)),
            asyncio.create_task(self._pump(far_reader, writer, Direction.TO_CLIENT)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for end in (writer, far_writer):
                end.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        """Return when the connection is closed, or must be cut."""
        try:
            while packet := await reader.read(BUFFER_BYTE_COUNT):
                if self._is_due(direction):
                    return
                writer.write(packet)
        except ConnectionError:
            return

    def _is_due(self, direction: Direction) -> bool:
        with self._lock:
            if self._cut is None or self._cut.direction is not direction:
                return False
            self._cut.left_count -= 1
            if self._cut.left_count:
                return False
            self._cut = None
            return True

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        own = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
