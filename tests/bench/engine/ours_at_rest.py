"""headway's part beside the races: waiting, sleeping, starting, and recovering after a kill."""

import asyncio
import time
from pathlib import Path
from typing import Final

from headway import Headway, RunContext
from tests.bench.engine.contestants import BEHIND_ONE_KEY
from tests.bench.engine.marks import FOR_EVER_S, hold
from tests.bench.engine.opened import opened_engine, resume, submit_many
from tests.bench.engine.order import Answer, Order
from tests.bench.stopwatch import Stopwatch

SETTLE_S: Final = 3.0
SLEEP_BEGINS_S: Final = 5.0
"""The least time that all of them sleep."""


async def stay(order: Order) -> None:
    """Work until killed, with the default lease."""

    async def job(ctx: RunContext, number: int) -> None:
        await hold(order, number)

    async with opened_engine(order, job) as headway:
        if order.role == "first":
            await submit_many(headway, order.job_count)
            await resume(headway)
        await asyncio.sleep(FOR_EVER_S)


async def sleep_together(order: Order) -> Answer:
    """Measure the memory of sleeping jobs, and how late they resume; `times_ms` are latenesses."""
    wakes: list[float] = []
    asleep_count = 0
    are_asleep, may_know, have_woken = asyncio.Event(), asyncio.Event(), asyncio.Event()
    base_s = 0.0

    async def job(ctx: RunContext, number: int) -> None:
        nonlocal asleep_count
        asleep_count += 1
        if asleep_count == order.job_count:
            are_asleep.set()
        await may_know.wait()
        due_s = base_s + order.spread_s * number / order.job_count
        await ctx.sleep(due_s - time.perf_counter())
        wakes.append((time.perf_counter() - due_s) * 1_000)
        if len(wakes) == order.job_count:
            have_woken.set()

    async with opened_engine(order, job) as headway:
        await asyncio.sleep(SETTLE_S)
        before_bytes = memory_bytes()
        await submit_many(headway, order.job_count)
        await resume(headway)
        await are_asleep.wait()
        base_s = time.perf_counter() + SLEEP_BEGINS_S + order.job_count / 1_000
        may_know.set()
        await asyncio.sleep(base_s - time.perf_counter())
        weight_bytes = memory_bytes() - before_bytes
        watch = Stopwatch()
        with watch:
            await have_woken.wait()
    return Answer(
        count=order.job_count,
        elapsed_s=watch.elapsed_s,
        cpu_s=watch.cpu_s,
        times_ms=tuple(wakes),
        memory_bytes=weight_bytes,
    )


def memory_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmRSS":
            return int(value.split()[0]) * 1_024
    raise AssertionError("/proc/self/status has no VmRSS")


async def wait_idly(order: Order) -> Answer:
    """Measure the cost of jobs that cannot start."""
    is_behind_one_key = order.variant == BEHIND_ONE_KEY
    has_begun = asyncio.Event()

    async def job(ctx: RunContext, number: int) -> None:
        has_begun.set()
        await asyncio.sleep(FOR_EVER_S)

    async with opened_engine(order, job) as headway:
        key = "the-one" if is_behind_one_key else None
        await submit_many(headway, order.job_count, key_of=lambda _: key)
        if is_behind_one_key:
            await resume(headway)
            await has_begun.wait()
        await asyncio.sleep(SETTLE_S)
        watch = Stopwatch()
        with watch:
            await asyncio.sleep(order.watch_s)
    return Answer(count=order.job_count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


async def start_up(order: Order) -> Answer:
    """Measure from before the start of the interpreter to the first line of a job."""
    begun_at_s: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    headway = Headway(order.url)

    @headway.job()
    async def job(ctx: RunContext) -> None:
        begun_at_s.set_result(time.perf_counter())

    async with headway:
        await headway.start("job")
        elapsed_s = await begun_at_s - order.ordered_at_s
        return Answer(count=1, elapsed_s=elapsed_s, cpu_s=time.process_time())
