"""A client of the stream that is cut again and again, while servers stop and die, and events go."""

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
from tests.api.client import Client, Sent
from tests.api.conftest import served
from tests.api.program import served_apart

CUTS_PER_LEG = 10
EVENT_COUNT_MAX = 12
LAST_EVENT_COUNT_MAX = 6
LAST_RUN_COUNT = 8
"""More than are heard before a server dies: there is always something to hear."""
DEATH_S_MAX = 60


@dataclass(slots=True)
class Seen:
    """What the client has seen; a fault is an event that was missed, repeated or out of order, and
    a resync although nothing was missing."""

    last: int = 0
    pruned: int = 0
    """Up to here events are gone."""
    event_count: int = 0
    resync_count: int = 0
    cut_count: int = 0
    kill_count: int = 0
    faults: list[str] = field(default_factory=list)

    def note(self, event: Sent) -> None:
        if event.id is None:
            return
        number = event.seq
        if event.event == "resync":
            self.resync_count += 1
            if number <= self.last:
                self.faults.append(f"resync to {number} after {self.last}")
            if self.last >= self.pruned:
                self.faults.append(f"resync after {self.last}, and only {self.pruned} are gone")
        else:
            self.event_count += 1
            if number != self.last + 1:
                self.faults.append(f"{event.event} {number} after {self.last}")
        self.last = number


@dataclass(frozen=True, slots=True)
class Server:
    client: Client
    pid: int | None = None
    """Of its own process, which is killed; None: it is in this one, and stops in good order."""


async def cut(url: str, folder: Path, *, cut_count: int, seed: int) -> Seen:
    """Follow the stream through so many cuts, while runs come and go and events are pruned."""
    dice = random.Random(seed)
    seen = Seen()
    kinds = _kinds(dice)
    store = await open_store([url])
    try:
        while seen.cut_count < cut_count:
            async with _servers(url, folder, *next(kinds)) as servers:
                await _leg(servers, seen, dice, cut_count)
                if dice.random() < 0.5:  # What it has not seen may be gone when it comes back.
                    await _prune(store, seen, dice)
    finally:
        await store.close()
    async with served(url) as client:
        await _to_the_end(client, seen)
    return seen


def _kinds(dice: random.Random) -> Iterator[tuple[bool, bool]]:
    """Whether there is a server in this process, and one of its own: each way as often."""
    while True:  # Whoever has enough leaves.
        legs = [(True, False), (False, True), (True, True)]
        dice.shuffle(legs)
        yield from legs


@asynccontextmanager
async def _servers(
    url: str, folder: Path, is_one_here: bool, is_one_apart: bool
) -> AsyncIterator[list[Server]]:
    async with AsyncExitStack() as stack:
        servers = []
        if is_one_here:
            servers.append(Server(await stack.enter_async_context(served(url))))
        if is_one_apart:
            starting = served_apart(folder, HEADWAY_DATABASE_URL=url)
            program = await asyncio.to_thread(stack.enter_context, starting)
            client = await stack.enter_async_context(Client(program.address, Headway(url)))
            servers.append(Server(client, program.pid))
        yield servers


async def _leg(servers: list[Server], seen: Seen, dice: random.Random, upto: int) -> None:
    """Through some cuts, each resumed on any of these servers; one of its own process dies."""
    last = dice.randrange(CUTS_PER_LEG)
    for number in range(CUTS_PER_LEG):
        if seen.cut_count >= upto or not servers:
            return
        for _ in range(dice.randint(1, 4)):
            await dice.choice(servers).client.submitted("echo")
        mortal = next((server for server in servers if server.pid is not None), None)
        if number == last and mortal is not None:
            await _until_it_dies(mortal, seen, dice)
            servers.remove(mortal)
        else:
            await _read(dice.choice(servers).client, seen, dice)
        seen.cut_count += 1


async def _read(client: Client, seen: Seen, dice: random.Random) -> None:
    """A few events; then the line is cut, wherever it is."""
    left = dice.randint(0, EVENT_COUNT_MAX)
    with suppress(TimeoutError, aiohttp.ClientError):
        async with (
            asyncio.timeout(dice.choice((0.02, 0.1, 1.0))),
            client.streamed("/api/events", last_event_id=str(seen.last)) as events,
        ):
            async for event in events:
                seen.note(event)
                left -= 1
                if left <= 0:
                    return


async def _until_it_dies(server: Server, seen: Seen, dice: random.Random) -> None:
    """It is killed while it speaks, in the middle of its work."""
    assert server.pid is not None

    async def keep_busy() -> None:
        with suppress(aiohttp.ClientError):
            for _ in range(LAST_RUN_COUNT):
                await server.client.submitted("echo")

    left = dice.randint(1, LAST_EVENT_COUNT_MAX)
    busy = asyncio.create_task(keep_busy())
    async with asyncio.timeout(DEATH_S_MAX):
        with suppress(aiohttp.ClientError):
            last_id = str(seen.last)
            async with server.client.streamed("/api/events", last_event_id=last_id) as events:
                async for event in events:  # Also what it had said before.
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


async def _to_the_end(client: Client, seen: Seen) -> None:
    last = (await client.get("/api/state"))["seq"]
    if seen.last >= last:
        return
    async with client.streamed("/api/events", last_event_id=str(seen.last)) as events:
        async for event in events:
            seen.note(event)
            if seen.last >= last:
                return
