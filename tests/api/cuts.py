"""A stream client that is cut off repeatedly while servers stop or are killed and events pruned."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.app import Headway
from headway.core.command.admin.prune import PruneEvents
from tests.api.client import Client, ServerEvent
from tests.api.conftest import served
from tests.api.program import served_in_subprocess

CUTS_PER_LEG = 10
EVENT_COUNT_MAX = 12
LAST_EVENT_COUNT_MAX = 6
LAST_RUN_COUNT = 8
"""More than `LAST_EVENT_COUNT_MAX`, so that enough events arrive before a server is killed."""
KILL_S_MAX = 60


@dataclass(slots=True)
class Seen:
    """The events that the client has received, and the errors in their order.

    An error is an event that was missed, repeated or out of order, or a resync although no event
    was missing.
    """

    last: int = 0
    pruned: int = 0
    """The events up to this number were pruned."""
    event_count: int = 0
    resync_count: int = 0
    cut_count: int = 0
    kill_count: int = 0
    errors: list[str] = field(default_factory=list)

    def note(self, event: ServerEvent) -> None:
        if event.id is None:
            return
        number = event.seq
        if event.event == "resync":
            self.resync_count += 1
            if number <= self.last:
                self.errors.append(f"resync to {number} after {self.last}")
            if self.last >= self.pruned:
                self.errors.append(f"resync after {self.last}, and only {self.pruned} are pruned")
        else:
            self.event_count += 1
            if number != self.last + 1:
                self.errors.append(f"{event.event} {number} after {self.last}")
        self.last = number


@dataclass(frozen=True, slots=True)
class Server:
    client: Client
    pid: int | None = None
    """The process to kill. None if the server is in this process; it is then stopped cleanly."""


async def cut(url: str, folder: Path, *, cut_count: int, seed: int) -> Seen:
    """Follow the stream through `cut_count` cuts, while runs are submitted and events pruned."""
    dice = random.Random(seed)
    seen = Seen()
    kinds = _server_kinds(dice)
    store = await open_store([url])
    try:
        while seen.cut_count < cut_count:
            async with _servers(url, folder, *next(kinds)) as servers:
                await _follow_through_cuts(servers, seen, dice, cut_count)
                if dice.random() < 0.5:  # May prune events that the client has not read.
                    await _prune(store, seen, dice)
    finally:
        await store.close()
    async with served(url) as client:
        await _read_to_the_end(client, seen)
    return seen


def _server_kinds(dice: random.Random) -> Iterator[tuple[bool, bool]]:
    """Yield which servers to start, in this process and in another, each way equally often."""
    while True:
        legs = [(True, False), (False, True), (True, True)]
        dice.shuffle(legs)
        yield from legs


@asynccontextmanager
async def _servers(
    url: str, folder: Path, is_in_process: bool, is_subprocess: bool
) -> AsyncIterator[list[Server]]:
    async with AsyncExitStack() as stack:
        servers = []
        if is_in_process:
            servers.append(Server(await stack.enter_async_context(served(url))))
        if is_subprocess:
            starting = served_in_subprocess(folder, HEADWAY_DATABASE_URL=url)
            program = await asyncio.to_thread(stack.enter_context, starting)
            client = await stack.enter_async_context(Client(program.address, Headway(url)))
            servers.append(Server(client, program.pid))
        yield servers


async def _follow_through_cuts(
    servers: list[Server], seen: Seen, dice: random.Random, upto: int
) -> None:
    """Resume after some cuts, each on any of these servers. A server process is killed once."""
    last = dice.randrange(CUTS_PER_LEG)
    for number in range(CUTS_PER_LEG):
        if seen.cut_count >= upto or not servers:
            return
        for _ in range(dice.randint(1, 4)):
            await dice.choice(servers).client.submit("echo")
        victim = next((server for server in servers if server.pid is not None), None)
        if number == last and victim is not None:
            await _read_until_killed(victim, seen, dice)
            servers.remove(victim)
        else:
            await _read(dice.choice(servers).client, seen, dice)
        seen.cut_count += 1


async def _read(client: Client, seen: Seen, dice: random.Random) -> None:
    """Read a few events, and then cut the connection at any point."""
    left = dice.randint(0, EVENT_COUNT_MAX)
    with suppress(TimeoutError, aiohttp.ClientError):
        async with (
            asyncio.timeout(dice.choice((0.02, 0.1, 1.0))),
            client.open_stream("/api/events", last_event_id=str(seen.last)) as events,
        ):
            async for event in events:
                seen.note(event)
                left -= 1
                if left <= 0:
                    return


async def _read_until_killed(server: Server, seen: Seen, dice: random.Random) -> None:
    """Read events until the server is killed, while it sends and executes runs."""
    assert server.pid is not None

    async def keep_busy() -> None:
        with suppress(aiohttp.ClientError):
            for _ in range(LAST_RUN_COUNT):
                await server.client.submit("echo")

    left = dice.randint(1, LAST_EVENT_COUNT_MAX)
    busy = asyncio.create_task(keep_busy())
    async with asyncio.timeout(KILL_S_MAX):
        with suppress(aiohttp.ClientError):
            last_id = str(seen.last)
            async with server.client.open_stream("/api/events", last_event_id=last_id) as events:
                async for event in events:  # Also those that it sent before the kill.
                    seen.note(event)
                    left -= 1
                    if left == 0:
                        os.kill(server.pid, signal.SIGKILL)
                        seen.kill_count += 1
        await busy


async def _prune(store: SqlStore, seen: Seen, dice: random.Random) -> None:
    last = (await store.events.events(after_seq=0, limit=1)).last_seq
    up_to = dice.randint(max(1, last - 30), last)
    await store.apply(PruneEvents(up_to_seq=up_to))
    seen.pruned = max(seen.pruned, up_to)


async def _read_to_the_end(client: Client, seen: Seen) -> None:
    last = (await client.get("/api/state"))["seq"]
    if seen.last >= last:
        return
    async with client.open_stream("/api/events", last_event_id=str(seen.last)) as events:
        async for event in events:
            seen.note(event)
            if seen.last >= last:
                return
