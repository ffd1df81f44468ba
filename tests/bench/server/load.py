"""Clients: some that submit as fast as they can, and some that listen."""

import asyncio
import statistics
import time
from urllib.parse import urlsplit

import aiohttp

LANE = "held"
"""A paused lane: submitted runs wait, so that only the submission is measured."""
BODY = {"job": "echo", "lane": LANE, "params": {"said": "x" * 100}}


def client(address: str, connection_count: int) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=connection_count)
    return aiohttp.ClientSession(address, connector=connector)


async def hold(address: str) -> None:
    """Close the lane."""
    async with client(address, 1) as session:
        wanted = {"paused": True, "max_concurrent": 1}
        async with session.patch(f"/api/lanes/{LANE}", json=wanted) as answer:
            assert answer.status == 200, await answer.text()


async def submits_per_s(address: str, *, connection_count: int, duration_s: float) -> float:
    async with client(address, connection_count) as session:
        until_s = time.perf_counter() + duration_s

        async def submit() -> int:
            count = 0
            while time.perf_counter() < until_s:
                await _submit(session)
                count += 1
            return count

        began_s = time.perf_counter()
        counts = await asyncio.gather(*(submit() for _ in range(connection_count)))
        return sum(counts) / (time.perf_counter() - began_s)


async def submit_many(address: str, count: int, *, connection_count: int = 50) -> None:
    async with client(address, connection_count) as session:
        left = iter(range(count))

        async def submit() -> None:
            for _ in left:
                await _submit(session)

        await asyncio.gather(*(submit() for _ in range(connection_count)))


async def _submit(session: aiohttp.ClientSession) -> None:
    async with session.post("/api/runs", json=BODY) as answer:
        await answer.read()
        assert answer.status == 201


async def snapshot_ms(address: str, *, look_count: int = 5) -> tuple[float, int]:
    """Return the median time of a snapshot, and its size in bytes."""
    times_ms, byte_count = [], 0
    async with client(address, 1) as session:
        for _ in range(look_count):
            began_s = time.perf_counter()
            async with session.get("/api/state") as answer:
                byte_count = len(await answer.read())
            times_ms.append((time.perf_counter() - began_s) * 1_000)
    return statistics.median(times_ms), byte_count


async def deliveries_per_s(address: str, *, client_count: int, event_count: int) -> float:
    """Return the rate of events that reach clients, in order, while they happen."""
    listening = [await _listener(address) for _ in range(client_count)]
    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for reader, _ in listening:
            group.create_task(_received(reader, event_count))
        group.create_task(submit_many(address, event_count, connection_count=4))
    elapsed_s = time.perf_counter() - began_s
    for _, writer in listening:
        writer.close()
    return client_count * event_count / elapsed_s


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _listener(address: str) -> Connection:
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(
        b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
    )
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def _received(reader: asyncio.StreamReader, count: int) -> None:
    """Wait until so many events have arrived; each must be the next."""
    last, rest = None, b""
    while count > 0:
        *blocks, rest = (rest + await reader.read(65_536)).split(b"\n\n")
        for block in blocks:
            if b"event: " not in block:  # It contains the beginning of the stream, or is a ping.
                continue
            number = int(block.partition(b"id: ")[2].partition(b"\n")[0].partition(b"-")[0])
            assert last is None or number == last + 1, (number, last)
            last = number
            count -= 1
