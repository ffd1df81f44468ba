"""Pickup latency, measured equally in every system: submit, wait for the first line, pause.

Nothing but the standard library: this is used in the environments of other systems too.
"""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final

from tests.bench.engine.order import Answer, Order
from tests.bench.engine.referee import Referee
from tests.bench.stopwatch import Stopwatch

PAUSE_S: Final = (0.005, 0.03)
"""Random lengths between these, so that no polling interval is in phase with them."""


async def time_pickups(
    order: Order, referee: Referee, submit: Callable[[int], Awaitable[object]]
) -> Answer:
    """Measure. `submit` returns the instant of its call, a float, if another process made it."""
    loop, has_begun = asyncio.get_running_loop(), asyncio.Event()
    referee.on_begin = lambda: loop.call_soon_threadsafe(has_begun.set)
    times_ms, watch = [], Stopwatch()
    with watch:
        for number in range(order.job_count):
            await asyncio.sleep(random.uniform(*PAUSE_S))
            has_begun.clear()
            called_at_s = time.perf_counter()
            submitted_at_s = await submit(number)
            await has_begun.wait()
            if isinstance(submitted_at_s, float):
                called_at_s = submitted_at_s
            times_ms.append((referee.begun_at_s[number] - called_at_s) * 1_000)
    return _answer(order, watch, times_ms)


def time_pickups_from_a_thread(
    order: Order, referee: Referee, submit: Callable[[int], object]
) -> Answer:
    has_begun = threading.Event()
    referee.on_begin = has_begun.set
    times_ms, watch = [], Stopwatch()
    with watch:
        for number in range(order.job_count):
            time.sleep(random.uniform(*PAUSE_S))
            has_begun.clear()
            called_at_s = time.perf_counter()
            submit(number)
            has_begun.wait()
            times_ms.append((referee.begun_at_s[number] - called_at_s) * 1_000)
    return _answer(order, watch, times_ms)


def _answer(order: Order, watch: Stopwatch, times_ms: list[float]) -> Answer:
    return Answer(
        count=order.job_count,
        elapsed_s=watch.elapsed_s,
        cpu_s=watch.cpu_s,
        times_ms=tuple(times_ms),
    )
