"""A stop notifies every stream, and does not wait for clients that do not read."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from headway import Headway
from headway.api import server
from headway.api.server import open_listener
from tests.api.client import LINE_BYTE_COUNT_MAX
from tests.api.conftest import served_in_this_loop
from tests.api.jobs import register
from tests.api.program import ROOT, STOP_S
from tests.api.stalled import stalled_streams, unread_byte_count
from tests.cli.command import command, environment

pytestmark = pytest.mark.backend("sqlite")

HEALTHY_COUNT = 40
STALLED_COUNT = 10
HEADERS = {"accept": "text/event-stream"}


async def test_stop_ends_open_streams_and_drops_clients_that_do_not_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        server, "STOP_S_MAX", 3_600
    )  # The test times out if the stop waits for them.
    monkeypatch.setattr(server, "open_listener", _open_listener_with_small_buffers)
    hw = Headway(url, stop_wait_s=0, sse_ping_interval_s=30)  # The stop itself wakes a stream.
    register(hw)
    has_last = asyncio.Event()
    kinds = Counter[str]()

    async def read(session: aiohttp.ClientSession, address: str) -> str:
        """Return the kind of the last event after the stream has ended cleanly."""
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
            served_in_this_loop(hw) as address,
        ):
            stalled = await after_stop.enter_async_context(
                stalled_streams(address, STALLED_COUNT, after=0)
            )
            reading = [asyncio.create_task(read(session, address)) for _ in range(HEALTHY_COUNT)]
            await hw.start("shout", params={"count": 10, "length": 100_000})
            await has_last.wait()
            assert all(0 < unread_byte_count(connection) < 500_000 for connection in stalled)
        assert await asyncio.gather(*reading) == ["server_closing"] * HEALTHY_COUNT


SLOW = """\
import asyncio
from headway import Headway
from tests.api.test_stop import wait_for
class Slow(Headway):
    async def __aexit__(self, *end):
        await asyncio.to_thread(wait_for, "may_end")
        await super().__aexit__(*end)
wait_for("may_start")
hw = Slow()
"""


def wait_for(name: str) -> None:
    """Wait until this file exists in the folder, and create another that reports the wait."""
    Path(f"waits_until_it_{name}").touch()
    while not Path(name).exists():
        time.sleep(0.01)


@pytest.mark.proves("R3.8")
def test_signal_that_resets_lanes_does_not_end_the_server(tmp_path: Path) -> None:
    """This holds while it starts, while it serves, and while it waits for its last runs."""
    (tmp_path / "slow.py").write_text(SLOW)
    log = tmp_path / "server.log"
    arguments = ("serve", "--app", "slow:hw", "--port", "0")
    path = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with log.open("w") as stderr:
        serving = subprocess.Popen(
            command(*arguments), cwd=tmp_path, env=environment(**path), stderr=stderr
        )

    def wait_until(condition: Callable[[], bool]) -> None:
        while not condition():
            assert serving.poll() is None, log.read_text()
            time.sleep(0.01)

    try:
        wait_until((tmp_path / "waits_until_it_may_start").exists)
        serving.send_signal(signal.SIGUSR1)
        (tmp_path / "may_start").touch()
        wait_until(lambda: "headway serves" in log.read_text())
        serving.send_signal(signal.SIGUSR1)
        wait_until(lambda: log.read_text().count("reset_not_needed") == 2)
        serving.terminate()
        wait_until((tmp_path / "waits_until_it_may_end").exists)
        serving.send_signal(signal.SIGUSR1)
        wait_until(lambda: log.read_text().count("reset_not_needed") == 3)
        (tmp_path / "may_end").touch()
        assert serving.wait(STOP_S) == 0
    finally:
        serving.kill()


def _open_listener_with_small_buffers(host: str, port: int) -> socket.socket:
    """Open a listener with small send buffers, which its connections inherit."""
    listener = open_listener(host, port)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    return listener
