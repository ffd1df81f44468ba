"""arq: asyncio on Redis; it polls, here a hundred times per second."""

import asyncio
import logging
import os

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker

from tests.bench.engine.order import Answer, Order, Work, give_answer, received_order
from tests.bench.engine.pickups import time_pickups
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch

SUBMITTER_COUNT = 50
POLL_S = 0.01

order = received_order()
referee = Referee()


async def job(_: object, number: int) -> None:
    referee.begin(number)


async def drain(order: Order) -> Answer:
    pool = await create_pool(RedisSettings.from_dsn(order.url))
    numbers = iter(range(order.job_count))

    async def submit() -> None:
        for number in numbers:
            await pool.enqueue_job("job", number)

    await asyncio.gather(*(submit() for _ in range(SUBMITTER_COUNT)))
    worker = Worker(
        [job],
        redis_pool=pool,
        max_jobs=order.concurrent_count,
        burst=True,
        poll_delay=POLL_S,
        handle_signals=False,
    )
    watch = Stopwatch()
    with watch:
        await worker.async_run()
    assert worker.jobs_complete == order.job_count, f"{worker.jobs_complete} jobs are complete"
    return Answer(count=order.job_count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


async def pickup(order: Order) -> Answer:
    pool = await create_pool(RedisSettings.from_dsn(order.url))
    worker = Worker([job], redis_pool=pool, poll_delay=POLL_S, handle_signals=False)
    running = asyncio.create_task(worker.async_run())
    await asyncio.sleep(1.0)
    answer = await time_pickups(order, referee, lambda number: pool.enqueue_job("job", number))
    running.cancel()
    return answer


async def main() -> None:
    give_answer(order, await {Work.DRAIN: drain, Work.PICKUP: pickup}[order.work](order))
    os._exit(0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
