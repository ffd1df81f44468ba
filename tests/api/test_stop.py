"""A stop tells every stream, and waits for nobody who does not read."""

import asyncio
import contextlib
import os
import signal
import socket
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from headway import Headway
from headway.api import events, server
from headway.api.server import open_listener
from tests.api.client import LINE_BYTE_COUNT_MAX
from tests.api.conftest import served_here
from tests.api.jobs import register
from tests.api.program import served_apart
from tests.api.stalled import stalled_streams, unread_byte_count

pytestmark = pytest.mark.backend("sqlite")

HEALTHY_COUNT = 40
STALLED_COUNT = 10
HEADERS = {"accept": "text/event-stream"}


async def test_a_stop_ends_open_streams_and_leaves_those_who_do_not_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STOP_S_MAX", 3_600)  # So nobody is waited for in vain.
    monkeypatch.setattr(events, "PING_S", 3_600)  # Nothing but the stop itself wakes a stream.
    monkeypatch.setattr(server, "open_listener", _with_small_buffers)
    hw = Headway(url, stop_wait_s=0)
    register(hw)
    has_last = asyncio.Event()
    kinds = Counter[str]()

    async def read(session: aiohttp.ClientSession, address: str) -> str:
        """The last word, once the stream has ended in good order."""
        kind = ""
        async with session.get(f"{address}/api/events?after=0", headers=HEADERS) as answer:
            async for line in answer.content:
                if line.startswith(b"event: "):
                    kind = line.decode().removeprefix("event: ").strip()
                if line.startswith(b"data: ") and b'"state":"Done"' in line:
                    kinds["Done"] += 1
                    if kinds["Done"] == HEALTHY_COUNT:
                        has_last.set()
        return kind

    async with (
        asyncio.timeout(60),
        hw,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), read_bufsize=LINE_BYTE_COUNT_MAX
        ) as session,
    ):
        async with (
            contextlib.AsyncExitStack() as after_stop,
            served_here(hw) as address,
        ):
            stalled = await after_stop.enter_async_context(
                stalled_streams(address, STALLED_COUNT, after=0)
            )
            reading = [asyncio.create_task(read(session, address)) for _ in range(HEALTHY_COUNT)]
            await hw.start("shout", params={"count": 10, "length": 100_000})
            await has_last.wait()
            assert all(0 < unread_byte_count(one) < 500_000 for one in stalled)
        assert await asyncio.gather(*reading) == ["server_closing"] * HEALTHY_COUNT


async def test_r3_8_the_signal_that_resets_lanes_ends_no_server(tmp_path: Path) -> None:
    with served_apart(tmp_path) as program:
        async with aiohttp.ClientSession() as session:
            for number in (0, signal.SIGUSR1, 0):  # 0 is none: it is only looked for.
                os.kill(program.pid, number)
                async with session.get(f"{program.address}/healthz") as answer:
                    assert answer.status == 200
    assert "reset_not_needed" in (tmp_path / "server.log").read_text()


def _with_small_buffers(host: str, port: int) -> socket.socket:
    """Its connections have them, too: little is sent before a client has to read."""
    listener = open_listener(host, port)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    return listener
