"""SAQ: asyncio on Redis."""

import asyncio
import logging
import os

from saq import Queue, Worker

from tests.bench.engine.order import Answer, Order, Work, give_answer, received_order
from tests.bench.engine.pickups import time_pickups
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch

SUBMITTER_COUNT = 50

order = received_order()
referee = Referee()
ended = asyncio.Event()


async def job(_: object, number: int) -> None:
    referee.begin(number)


async def note_end(_: object) -> None:
    referee.ended_count += 1
    if referee.ended_count == order.job_count:
        ended.set()


async def _enqueue(queue: Queue, count: int) -> None:
    numbers = iter(range(count))

    async def submit() -> None:
        for number in numbers:
            await queue.enqueue("job", number=number)

    await asyncio.gather(*(submit() for _ in range(SUBMITTER_COUNT)))


async def drain(order: Order) -> Answer:
    queue = Queue.from_url(order.url)
    await queue.connect()
    await _enqueue(queue, order.job_count)
    worker = Worker(
        queue, functions=[job], concurrency=order.concurrent_count, after_process=note_end
    )
    watch = Stopwatch()
    with watch:
        running = asyncio.create_task(worker.start())
        await ended.wait()
    running.cancel()
    return Answer(count=order.job_count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


async def pickup(order: Order) -> Answer:
    queue, submitter = Queue.from_url(order.url), Queue.from_url(order.url)
    await queue.connect()
    await submitter.connect()
    running = asyncio.create_task(Worker(queue, functions=[job], concurrency=10).start())
    await asyncio.sleep(1.5)
    answer = await time_pickups(
        order, referee, lambda number: submitter.enqueue("job", number=number)
    )
    running.cancel()
    return answer


async def main() -> None:
    give_answer(order, await {Work.DRAIN: drain, Work.PICKUP: pickup}[order.work](order))
    os._exit(0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
