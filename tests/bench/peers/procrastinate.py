"""Procrastinate: asyncio and psycopg; a lock for each key; LISTEN."""

import asyncio
import logging
import os

import procrastinate

from tests.bench.engine.marks import hold
from tests.bench.engine.order import Answer, Order, Work, give_answer, received_order
from tests.bench.engine.pickups import time_pickups
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch

BATCH_COUNT = 1_000
RESCUE_S = 1.0

order = received_order()
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=order.url, min_size=4, max_size=20)
)
referee = Referee(concurrent_count=order.concurrent_count)


@app.task(name="job")
async def job(number: int) -> None:
    referee.begin(number)


@app.task(name="keyed")
async def keyed(number: int) -> None:
    key = number % order.key_count
    referee.enter(key, number)
    await asyncio.sleep(order.work_s)
    referee.leave(key)


@app.task(name="held")
async def held(number: int) -> None:
    await hold(order, number)


async def drain(order: Order) -> Answer:
    for first in range(0, order.job_count, BATCH_COUNT):
        last = min(order.job_count, first + BATCH_COUNT)
        await job.batch_defer_async(*[{"number": number} for number in range(first, last)])
    return await _work_off(order)


async def work_by_key(order: Order) -> Answer:
    for key in range(order.key_count):
        numbers = range(key, order.job_count, order.key_count)
        if numbers:
            deferred = keyed.configure(lock=f"key-{key}")
            await deferred.batch_defer_async(*[{"number": number} for number in numbers])
    return await _work_off(order)


async def _work_off(order: Order) -> Answer:
    await app.connector.execute_query_async("ANALYZE")
    watch = Stopwatch()
    with watch:
        await app.run_worker_async(
            concurrency=order.concurrent_count, wait=False, install_signal_handlers=False
        )
    row = await app.connector.execute_query_one_async(
        "SELECT count(*) AS count FROM procrastinate_jobs WHERE status = 'succeeded'"
    )
    assert row["count"] == order.job_count, f"{row['count']} of {order.job_count} jobs succeeded"
    return Answer(
        count=order.job_count,
        elapsed_s=watch.elapsed_s,
        cpu_s=watch.cpu_s,
        violation_count=referee.violation_count,
    )


async def pickup(order: Order) -> Answer:
    worker = asyncio.create_task(
        app.run_worker_async(concurrency=order.concurrent_count, install_signal_handlers=False)
    )
    await asyncio.sleep(1.5)
    answer = await time_pickups(order, referee, lambda number: job.defer_async(number=number))
    worker.cancel()
    return answer


async def stay(order: Order) -> None:
    """Work until killed. Stalled jobs start again only on request: here, often."""
    if order.role == "first":
        await held.batch_defer_async(*[{"number": number} for number in range(order.job_count)])
    else:
        rescuer = asyncio.create_task(_rescue())
        rescuer.add_done_callback(lambda _: os._exit(1))
    await app.run_worker_async(
        concurrency=2 * order.concurrent_count, install_signal_handlers=False
    )


async def _rescue() -> None:
    while True:
        for stalled in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(stalled)
        await asyncio.sleep(RESCUE_S)


async def main() -> None:
    async with app.open_async():
        if order.role != "second":
            await app.schema_manager.apply_schema_async()
        if order.work is Work.RECOVERY:
            await stay(order)
            return
        carry_out = {Work.DRAIN: drain, Work.PICKUP: pickup, Work.KEYED: work_by_key}
        give_answer(order, await carry_out[order.work](order))
        os._exit(0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
