"""Huey: threads; it polls SQLite and blocks on Redis."""

import logging
import os
import time
from urllib.parse import urlsplit

from huey import RedisHuey, SqliteHuey

from tests.bench.engine.order import Answer, Order, Work, give_answer, received_order
from tests.bench.engine.pickups import time_pickups_from_a_thread
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch

order = received_order()
if order.store == "sqlite":
    file_name = urlsplit(order.url).path.removeprefix("/")
    queue = SqliteHuey("bench", filename=file_name, fsync=order.durability == "power")
else:
    queue = RedisHuey("bench", url=order.url)
referee = Referee()


@queue.task()
def job(number: int) -> bool:
    referee.begin(number)
    return True  # A task that returns None leaves no result, and its end could not be observed.


def drain(order: Order) -> Answer:
    for number in range(order.job_count):
        job(number)
    consumer = queue.create_consumer(
        workers=order.concurrent_count, periodic=False, initial_delay=0.001, max_delay=0.05
    )
    watch = Stopwatch()
    with watch:
        consumer.start()
        while queue.result_count() < order.job_count:
            time.sleep(0.02)
    return Answer(count=order.job_count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


def pickup(order: Order) -> Answer:
    # By default it polls ten times per second, and then with increasing delays.
    consumer = queue.create_consumer(
        workers=1, periodic=False, initial_delay=0.001, max_delay=0.001
    )
    consumer.start()
    time.sleep(1)
    return time_pickups_from_a_thread(order, referee, job)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    give_answer(order, {Work.DRAIN: drain, Work.PICKUP: pickup}[order.work](order))
    os._exit(0)  # Its threads do not end by themselves.
