"""A client of the stream that is cut again and again, across restarts and retention."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field

import aiohttp

from headway.core.command.prune import PruneEvents
from tests.api.client import Client

CUTS_PER_SERVER = 10
EVENT_COUNT_MAX = 12


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
    faults: list[str] = field(default_factory=list)

    def note(self, number: int, kind: str) -> None:
        if kind == "resync":
            self.resync_count += 1
            if number <= self.last:
                self.faults.append(f"resync to {number} after {self.last}")
            if self.last >= self.pruned:
                self.faults.append(f"resync after {self.last}, and only {self.pruned} are gone")
        else:
            self.event_count += 1
            if number != self.last + 1:
                self.faults.append(f"{kind} {number} after {self.last}")
        self.last = number


Opened = Callable[[], AbstractAsyncContextManager[Client]]


async def cut(opened: Opened, *, cut_count: int, seed: int) -> Seen:
    """Follow the stream through so many cuts, while runs come and go and events are pruned."""
    dice = random.Random(seed)
    seen = Seen()
    while seen.cut_count < cut_count:
        async with opened() as client:
            await _with_one_server(client, seen, dice, cut_count)
            if dice.random() < 0.5:  # What it has not seen may be gone when the next one starts.
                last = (await client.get("/api/state"))["seq"]
                up_to = dice.randint(max(1, last - 30), last)
                await client.hw.store.apply(PruneEvents(up_to_seq=up_to))
                seen.pruned = max(seen.pruned, up_to)
    async with opened() as client:
        await _to_the_end(client, seen)
    return seen


async def _with_one_server(client: Client, seen: Seen, dice: random.Random, upto: int) -> None:
    for _ in range(CUTS_PER_SERVER):
        if seen.cut_count >= upto:
            return
        for _ in range(dice.randint(1, 4)):
            await client.submitted("echo")
        await _read(client, seen, dice)
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
                if event.id is None:
                    continue
                seen.note(int(event.id), event.event)
                left -= 1
                if left <= 0:
                    return


async def _to_the_end(client: Client, seen: Seen) -> None:
    last = (await client.get("/api/state"))["seq"]
    if seen.last >= last:
        return
    async with client.streamed("/api/events", last_event_id=str(seen.last)) as events:
        async for event in events:
            seen.note(int(event.id or 0), event.event)
            if seen.last >= last:
                return
