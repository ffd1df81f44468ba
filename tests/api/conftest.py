"""A real server in this process with its own database, and a client for it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headway.api.http.access import Access
from headway.api.http.origin import PublicAddress
from headway.api.server import serve
from headway.app import Headway
from tests.api.client import Client
from tests.api.jobs import register, register_schedule


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with served(url) as client:
        yield client


@asynccontextmanager
async def served(
    url: str,
    *,
    access: Access | None = None,
    public: PublicAddress | None = None,
    has_schedule: bool = False,
    schedule_name: str | None = None,
    lease_ttl_s: float | None = None,
    sse_ping_interval_s: float | None = None,
) -> AsyncIterator[Client]:
    hw = Headway(
        url, stop_wait_s=0, lease_ttl_s=lease_ttl_s, sse_ping_interval_s=sse_ping_interval_s
    )
    register(hw)
    if has_schedule:
        register_schedule(hw)
    if schedule_name is not None:
        hw.schedule("0 0 1 1 *", job="echo", name=schedule_name)
    async with (
        hw,
        served_in_this_loop(hw, access=access, public=public) as address,
        Client(address, hw) as client,
    ):
        yield client


@asynccontextmanager
async def served_in_this_loop(
    hw: Headway, *, access: Access | None = None, public: PublicAddress | None = None
) -> AsyncIterator[str]:
    """Serve `hw` in this event loop, and yield the address of the server."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(
            hw,
            host="127.0.0.1",
            port=0,
            access=access or Access(()),
            allowed_hosts=(),
            version="0",
            on_ready=address.set_result,
            public_address=public,
        )
    )
    serving.add_done_callback(lambda _: address.cancel())
    yield await address
    serving.cancel()
    await asyncio.wait([serving])


def fail_over(url: str) -> None:
    """Raise the epoch, as a failover leaves it in the database that takes over."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        database.execute("UPDATE stream SET epoch = epoch + 1")
