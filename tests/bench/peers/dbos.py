"""DBOS: workflows on SQLite or PostgreSQL; queues with partitions, polled."""

import asyncio
import logging
import os
import time

import sqlalchemy as sa
from dbos import DBOS, DBOSClient

from tests.bench.engine.marks import hold
from tests.bench.engine.order import STEP_COUNT, Answer, Order, Work, give_answer, received_order
from tests.bench.engine.pickups import time_pickups
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch

BATCH_COUNT = 200
POLL_S = {Work.DRAIN: 0.05, Work.KEYED: 0.05, Work.PICKUP: 0.01}
"""The default is one second, which is too slow for these measurements."""

order = received_order()
referee = Referee(concurrent_count=order.concurrent_count)


@DBOS.workflow()
async def job(number: int) -> None:
    referee.begin(number)


@DBOS.workflow()
async def keyed(number: int) -> None:
    key = number % order.key_count
    referee.enter(key, number)
    await asyncio.sleep(order.work_s)
    referee.leave(key)


@DBOS.step()
async def add_one(given: int) -> int:
    return given + 1


@DBOS.workflow()
async def ten_steps() -> int:
    count = 0
    for _ in range(STEP_COUNT):
        count = await add_one(count)
    return count


@DBOS.workflow()
async def held(number: int) -> None:
    await hold(order, number)


async def work_off(order: Order) -> Answer:
    """Register the queue when it is full: nothing is taken from it before."""
    client = DBOSClient(system_database_url=order.url)
    await asyncio.to_thread(_enqueue, client, order)
    limits = {}
    if order.work is Work.KEYED:
        limits = {"partition_concurrency": 1, "global_concurrency": order.concurrent_count}
    watch = Stopwatch()
    with watch:
        await DBOS.register_queue_async("work", polling_interval_sec=POLL_S[order.work], **limits)
        await asyncio.to_thread(_wait_for_all, order)
    return Answer(
        count=order.job_count,
        elapsed_s=watch.elapsed_s,
        cpu_s=watch.cpu_s,
        violation_count=referee.violation_count,
    )


def _enqueue(client: DBOSClient, order: Order) -> None:
    options = {"workflow_name": "keyed" if order.work is Work.KEYED else "job"}
    options["queue_name"] = "work"
    for first in range(0, order.job_count, BATCH_COUNT):
        with client._sys_db.engine.begin() as connection:
            for number in range(first, min(order.job_count, first + BATCH_COUNT)):
                if order.work is Work.KEYED:
                    options["queue_partition_key"] = f"key-{number % order.key_count}"
                client.enqueue_in_transaction(connection, options, number)


def _wait_for_all(order: Order) -> None:
    url = order.url.replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(url)
    status = sa.table("workflow_status", sa.column("status"))
    status.schema = None if order.store == "sqlite" else "dbos"
    count = sa.select(sa.func.count()).select_from(status).where(status.c.status == "SUCCESS")
    with engine.connect() as connection:
        while connection.execute(count).scalar_one() < order.job_count:
            connection.rollback()
            time.sleep(0.05)


async def walk(order: Order) -> Answer:
    """Start all of them concurrently, which is part of the measured time."""
    watch = Stopwatch()
    with watch:
        starts = (DBOS.start_workflow_async(ten_steps) for _ in range(order.job_count))
        await asyncio.gather(*starts)
        await asyncio.to_thread(_wait_for_all, order)
    count = order.job_count * STEP_COUNT
    return Answer(count=count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


async def pickup(order: Order) -> Answer:
    await DBOS.register_queue_async("work", polling_interval_sec=POLL_S[order.work])
    await asyncio.sleep(1.5)
    return await time_pickups(
        order, referee, lambda number: DBOS.enqueue_workflow_async("work", job, number)
    )


async def stay(order: Order) -> None:
    """Work until killed. Its workflows resume when it restarts under its own name."""
    await DBOS.register_queue_async("work")
    if order.role == "first":
        for number in range(order.job_count):
            await DBOS.enqueue_workflow_async("work", held, number)
    await asyncio.sleep(3_600)


async def main() -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": order.url,
            "log_level": "ERROR",
            "console_log_level": "ERROR",
            "application_version": "1",
        }
    )
    DBOS.launch()
    if order.work is Work.RECOVERY:
        await stay(order)
        return
    carry_out = {
        Work.DRAIN: work_off,
        Work.KEYED: work_off,
        Work.PICKUP: pickup,
        Work.FLOWS: walk,
    }
    give_answer(order, await carry_out[order.work](order))
    os._exit(0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
