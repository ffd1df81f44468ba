"""Where the time of a life cycle goes: each thread's share, and the writer's functions."""

import asyncio
import cProfile
import multiprocessing
import pstats
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from headway.adapters.sql.database import Database
from headway.adapters.sql.dsn import parse_addresses
from headway.adapters.sql.schema import upgrade_schema
from tests.bench.places import Place
from tests.bench.plan import Scale
from tests.bench.work import Cycles, repeat, working_store

CALLERS: Final = 1_000
LINE_COUNT: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Of one life cycle, on average."""

    count: int
    elapsed_us: float
    writer_cpu_us: float
    callers_cpu_us: float
    batch_count: int
    conflict_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One function of the writer's thread, per life cycle."""

    name: str
    calls: float
    own_us: float
    total_us: float


def show_profile(place: Place, scale: Scale) -> None:
    context = multiprocessing.get_context("spawn")
    duration_s = scale.duration_s * 2
    with ProcessPoolExecutor(max_workers=1, mp_context=context, max_tasks_per_child=1) as pool:
        with place.new_database() as url:
            shares = pool.submit(_take_shares, url, place.durability, duration_s).result()
    with ProcessPoolExecutor(max_workers=1, mp_context=context, max_tasks_per_child=1) as pool:
        with place.new_database() as url:
            lines = pool.submit(_take_lines, url, place.durability, duration_s).result()
    console = Console()
    per_cycle = f"{place.title}, {CALLERS:,} callers, one life cycle"
    table = Table("µs", "of what", title=per_cycle, title_justify="left")
    table.columns[0].justify = "right"
    table.add_row(f"{shares.elapsed_us:.1f}", f"elapsed ({1e6 / shares.elapsed_us:,.0f}/s)")
    table.add_row(f"{shares.writer_cpu_us:.1f}", "CPU of the writer's thread")
    table.add_row(f"{shares.callers_cpu_us:.1f}", "CPU of the callers' thread")
    console.print(table)
    console.print(
        f"{shares.count:,} cycles in {shares.batch_count:,} batches,"
        f" {shares.count * 2 / shares.batch_count:.0f} submits and settles each;"
        f" {shares.conflict_count} conflicts"
    )
    _show_lines(console, lines)


def _show_lines(console: Console, lines: list[Line]) -> None:
    # The profiler makes every call dearer, so these add up to more than the CPU above.
    table = Table(
        *("own, µs", "with callees, µs", "calls", "function of the writer's thread"),
        title="profiled, per life cycle",
        title_justify="left",
    )
    for column in table.columns[:3]:
        column.justify = "right"
    for line in lines[:LINE_COUNT]:
        table.add_row(f"{line.own_us:.2f}", f"{line.total_us:.2f}", f"{line.calls:.3f}", line.name)
    console.print(table)


def _take_shares(url: str, durability: Any, duration_s: float) -> Shares:
    return asyncio.run(_shares(url, durability, duration_s))


def _take_lines(url: str, durability: Any, duration_s: float) -> list[Line]:
    profile = cProfile.Profile()
    with _profiling_writer(profile):
        shares = asyncio.run(_shares(url, durability, duration_s, warm_up=False))
    entries: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    lines = [
        Line(
            name=_function_name(*function),
            calls=calls / shares.count,
            own_us=own_s / shares.count * 1e6,
            total_us=total_s / shares.count * 1e6,
        )
        for function, (_, calls, own_s, total_s, _) in entries.items()
    ]
    return sorted(lines, key=lambda line: -line.own_us)


def _function_name(path: str, line: int, function: str) -> str:
    if path == "~":
        return function
    return f"{'/'.join(Path(path).parts[-2:])}:{line} {function}"


@contextmanager
def _profiling_writer(profile: cProfile.Profile) -> Iterator[None]:
    """Profile the thread that a store starts while this is entered, until that thread ends."""

    def on_first_call(frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(None)
        if threading.current_thread().name == "headway-writer":
            profile.enable()

    threading.setprofile(on_first_call)
    try:
        yield
    finally:
        threading.setprofile(None)


async def _shares(url: str, durability: Any, duration_s: float, warm_up: bool = True) -> Shares:
    addresses = parse_addresses([url])
    database = Database(addresses, durability=durability)
    await upgrade_schema(database, addresses[0])
    await database.close()
    async with working_store(url, durability=durability) as (store, instance_id):
        writer = store.writer
        assert writer._thread.ident is not None
        clock = time.pthread_getcpuclockid(writer._thread.ident)
        cycles = Cycles(store, instance_id)
        async with cycles.claiming():
            if warm_up:
                await repeat(cycles, callers=CALLERS, duration_s=0)
            batch_count, conflict_count = writer.batch_count, writer.conflict_count
            started = (time.perf_counter(), time.clock_gettime(clock), time.thread_time())
            count = await repeat(cycles, callers=CALLERS, duration_s=duration_s)
            ended = (time.perf_counter(), time.clock_gettime(clock), time.thread_time())
        elapsed_us, writer_us, callers_us = (
            (after - before) / count * 1e6 for before, after in zip(started, ended, strict=True)
        )
        return Shares(
            count=count,
            elapsed_us=elapsed_us,
            writer_cpu_us=writer_us,
            callers_cpu_us=callers_us,
            batch_count=writer.batch_count - batch_count,
            conflict_count=writer.conflict_count - conflict_count,
        )
