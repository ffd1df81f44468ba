"""PgQueuer: asyncio, asyncpg and uvloop, as its own program does; LISTEN."""

import asyncio
import os
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.types import QueueExecutionMode

from tests.bench.engine.marks import hold
from tests.bench.engine.order import Answer, Order, Work, give_answer, received_order
from tests.bench.engine.pickups import time_pickups
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch

BATCH_COUNT = 1_000

order = received_order()
referee = Referee()


async def _opened() -> tuple[Queries, PgQueuer]:
    driver = AsyncpgDriver(await asyncpg.connect(order.url))
    queries, queue = Queries(driver), PgQueuer(driver)
    if order.role != "second":
        await queries.install()

    @queue.entrypoint("job")
    async def job(one: Any) -> None:
        referee.begin(int(one.payload))

    @queue.entrypoint("held")
    async def held(one: Any) -> None:
        await hold(order, int(one.payload))

    return queries, queue


async def _enqueue(queries: Queries, name: str, count: int) -> None:
    for first in range(0, count, BATCH_COUNT):
        numbers = range(first, min(count, first + BATCH_COUNT))
        payloads = [b"%d" % number for number in numbers]
        await queries.enqueue([name] * len(numbers), payloads, [0] * len(numbers))


async def drain(order: Order) -> Answer:
    queries, queue = await _opened()
    await _enqueue(queries, "job", order.job_count)
    watch = Stopwatch()
    with watch:
        await queue.run(batch_size=order.concurrent_count, mode=QueueExecutionMode.drain)
    connection = await asyncpg.connect(order.url)
    left_count = await connection.fetchval("SELECT count(*) FROM pgqueuer")
    await connection.close()
    assert not left_count, f"{left_count} jobs are left"
    return Answer(count=order.job_count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


async def pickup(order: Order) -> Answer:
    _, queue = await _opened()
    submitter = Queries(AsyncpgDriver(await asyncpg.connect(order.url)))
    worker = asyncio.create_task(queue.run(batch_size=order.concurrent_count))
    await asyncio.sleep(1.5)
    answer = await time_pickups(
        order, referee, lambda number: submitter.enqueue("job", b"%d" % number)
    )
    worker.cancel()
    return answer


async def stay(order: Order) -> None:
    queries, queue = await _opened()
    if order.role == "first":
        await _enqueue(queries, "held", order.job_count)
    await queue.run()


async def main() -> None:
    if order.work is Work.RECOVERY:
        await stay(order)
        return
    give_answer(order, await {Work.DRAIN: drain, Work.PICKUP: pickup}[order.work](order))
    os._exit(0)


if __name__ == "__main__":
    uvloop.run(main())
