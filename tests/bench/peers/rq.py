"""RQ: one job after the other in the worker's own process, without forking, on Redis."""

import logging
import os

from redis import Redis
from rq import Queue, SimpleWorker

from tests.bench.engine.order import Answer, Order, give_answer, received_order
from tests.bench.stopwatch import Stopwatch

JOB = "tests.bench.peers.rq.job"  # It is found by this name, not in __main__.


def job(number: int) -> int:
    return number


def drain(order: Order) -> Answer:
    redis = Redis.from_url(order.url)
    queue = Queue(connection=redis)
    numbers = range(order.job_count)
    queue.enqueue_many([Queue.prepare_data(JOB, (number,)) for number in numbers])
    worker = SimpleWorker([queue], connection=redis)
    watch = Stopwatch()
    with watch:
        worker.work(burst=True, logging_level="CRITICAL")
    assert queue.finished_job_registry.get_job_count(cleanup=False) == order.job_count
    return Answer(count=order.job_count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    order = received_order()
    give_answer(order, drain(order))
    os._exit(0)
