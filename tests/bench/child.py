"""One measurement, in a process of its own, so that none disturbs the next."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from statistics import quantiles
from typing import Final

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.sqlite import Durability
from headway.adapters.sql.schema import upgrade_schema
from tests.bench.plan import Assignment, Outcome, Side, What
from tests.bench.raw import RawDriver, RawRuns, open_raw
from tests.bench.recorded import RawRun, record
from tests.bench.stopwatch import Stopwatch
from tests.bench.work import Claims, Cycles, Submits, repeat, working_store

OUTCOME_TIMEOUT_S: Final = 600.0
BATCH_COUNT: Final = 1_000
IDLE_S: Final = 0.001


def carry_out_apart(assignment: Assignment) -> Outcome:
    """Measure in a new process, with everything imported and nothing else done."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(carry_out, assignment).result()


def carry_out(assignment: Assignment) -> Outcome:
    return asyncio.run(_carry_out_in_time(assignment))


async def _carry_out_in_time(assignment: Assignment) -> Outcome:
    async with asyncio.timeout(OUTCOME_TIMEOUT_S):
        return await _carry_out(assignment)


async def _carry_out(assignment: Assignment) -> Outcome:
    url, durability = assignment.url, assignment.durability
    await upgrade(url, durability=durability)
    if assignment.side is Side.RAW:
        opened = raw_runs(url, durability=durability, key_count=assignment.key_count)
        async with opened as (driver, runs):
            return await _measure_raw(assignment, driver, runs)
    if assignment.backlog_count:
        async with raw_runs(url, durability=durability) as (driver, runs):
            await _queue(assignment.backlog_count, driver, runs)
    return await _measure_store(assignment)


async def upgrade(url: str, *, durability: Durability) -> None:
    addresses = parse_addresses([url])
    database = Database(addresses, durability=durability)
    try:
        await upgrade_schema(database, addresses[0])
    finally:
        await database.close()


@asynccontextmanager
async def raw_runs(
    url: str, *, durability: Durability, key_count: int | None = None
) -> AsyncIterator[tuple[RawDriver, RawRuns]]:
    """Open a raw connection, with runs to send.

    The store first makes one run, which is recorded.
    """
    async with working_store(url, durability=durability) as (store, instance_id):
        pattern = await record(store, instance_id)
    driver = await open_raw(url, durability=durability)
    try:
        runs = RawRuns(driver, pattern, key_count=key_count)
        await runs.start()
        yield driver, runs
    finally:
        await driver.close()


async def _queue(count: int, driver: RawDriver, runs: RawRuns) -> list[RawRun]:
    """Runs that wait to be claimed."""
    waiting: list[RawRun] = []
    while len(waiting) < count:
        submitted, transaction = runs.submit(min(BATCH_COUNT, count - len(waiting)))
        await driver.transact(transaction)
        waiting += submitted
    return waiting


def _outcome(watch: Stopwatch, count: int, times_ms: Sequence[float] = ()) -> Outcome:
    p50_ms, p99_ms = 0.0, 0.0
    if times_ms:
        cuts = quantiles(times_ms, n=100)
        p50_ms, p99_ms = cuts[49], cuts[98]
    return Outcome(
        count=count,
        elapsed_s=watch.elapsed_s,
        cpu_s=watch.cpu_s,
        p50_ms=p50_ms,
        p99_ms=p99_ms,
    )


async def _measure_raw(assignment: Assignment, driver: RawDriver, runs: RawRuns) -> Outcome:
    if assignment.what is What.GROWTH:
        return await _finish_many(assignment, driver, runs)
    # Warm up: statements are prepared, and files grow.
    for transaction in runs.cycle(assignment.callers):
        await driver.transact(transaction)
    match assignment.what:
        case What.LATENCY:
            return await _time_raw_submits(assignment, driver, runs)
        case What.CLAIMS:
            return await _measure_raw_claims(assignment, driver, runs)
        case _:
            return await _measure_raw_rate(assignment, driver, runs)


async def _finish_many(assignment: Assignment, driver: RawDriver, runs: RawRuns) -> Outcome:
    watch = Stopwatch()
    for _ in range(assignment.finished_count // BATCH_COUNT):
        for transaction in runs.cycle(BATCH_COUNT):
            with watch:
                await driver.transact(transaction)
    return _outcome(watch, assignment.finished_count)


async def _measure_raw_rate(assignment: Assignment, driver: RawDriver, runs: RawRuns) -> Outcome:
    watch, count = Stopwatch(), 0
    while watch.elapsed_s < assignment.duration_s:
        if assignment.what is What.SUBMITS:
            _, submit = runs.submit(assignment.callers)
            with watch:
                await driver.transact(submit)
        else:
            for transaction in runs.cycle(assignment.callers):
                with watch:
                    await driver.transact(transaction)
        count += assignment.callers
    return _outcome(watch, count)


async def _measure_raw_claims(assignment: Assignment, driver: RawDriver, runs: RawRuns) -> Outcome:
    waiting = await _queue(assignment.backlog_count, driver, runs)
    watch, count = Stopwatch(), 0
    while count < len(waiting) and watch.elapsed_s < assignment.duration_s:
        batch = waiting[count : count + assignment.callers]
        transaction = runs.claim(batch)
        with watch:
            await driver.transact(transaction)
        count += len(batch)
    return _outcome(watch, count)


async def _time_raw_submits(assignment: Assignment, driver: RawDriver, runs: RawRuns) -> Outcome:
    watch, times_ms = Stopwatch(), []
    for _ in range(assignment.latency_count):
        _, submit = runs.submit(1)
        await asyncio.sleep(IDLE_S)
        before_s = watch.elapsed_s
        with watch:
            await driver.transact(submit)
        times_ms.append((watch.elapsed_s - before_s) * 1_000)
    return _outcome(watch, len(times_ms), times_ms)


async def _measure_store(assignment: Assignment) -> Outcome:
    async with working_store(assignment.url, durability=assignment.durability) as (store, instance):
        match assignment.what:
            case What.SUBMITS:
                return await _measure_calls(assignment, Submits(store))
            case What.CLAIMS:
                return await _measure_calls(assignment, Claims(store, instance))
            case What.LATENCY:
                return await _time_submits(assignment, Submits(store))
            case What.CYCLES:
                cycles = Cycles(store, instance, assignment.key_count)
                async with cycles.claiming():
                    return await _measure_calls(assignment, cycles)
            case What.GROWTH:
                raise AssertionError("only the raw driver makes finished runs")


async def _measure_calls(assignment: Assignment, once: Submits | Claims | Cycles) -> Outcome:
    await repeat(once, callers=assignment.callers, duration_s=0)
    watch = Stopwatch()
    with watch:
        count = await repeat(once, callers=assignment.callers, duration_s=assignment.duration_s)
    return _outcome(watch, count)


async def _time_submits(assignment: Assignment, once: Submits) -> Outcome:
    await repeat(once, callers=1, duration_s=0)
    watch, times_ms = Stopwatch(), []
    for _ in range(assignment.latency_count):
        await asyncio.sleep(IDLE_S)
        before_s = watch.elapsed_s
        with watch:
            await once()
        times_ms.append((watch.elapsed_s - before_s) * 1_000)
    return _outcome(watch, len(times_ms), times_ms)
