"""The time of a life cycle: each thread's share, and the writer's functions."""

import asyncio
import cProfile
import multiprocessing
import pstats
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.table import Table

from headway.adapters.sql.connect.sqlite import Durability
from tests.bench.child import upgrade
from tests.bench.places import Place
from tests.bench.plan import Scale
from tests.bench.stages import REST, timed_collections, timed_stages
from tests.bench.work import Cycles, repeat, working_store

CALLERS: Final = 1_000
LINE_COUNT: Final = 30

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The average of one life cycle."""

    count: int
    elapsed_us: float
    writer_cpu_us: float
    callers_cpu_us: float
    batch_count: int
    conflict_count: int
    stages_us: dict[str, float]
    """The stages of the writer's CPU time."""
    collector_us: dict[str, float]
    """The time of the garbage collector by thread, which the other values include."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One function of the writer's thread, per life cycle."""

    name: str
    calls: float
    own_us: float
    total_us: float


def show_profile(console: Console, place: Place, scale: Scale) -> None:
    shares = _apart(_take_shares, place, scale.profile_rounds)
    table = Table(
        *("µs", "of what"),
        title=f"{place.title}, {CALLERS:,} callers, one life cycle",
        title_justify="left",
    )
    table.columns[0].justify = "right"
    table.add_row(f"{shares.elapsed_us:.1f}", f"elapsed ({1e6 / shares.elapsed_us:,.0f}/s)")
    table.add_row(f"{shares.writer_cpu_us:.1f}", "CPU of the writer's thread:")
    for stage, spent_us in shares.stages_us.items():
        table.add_row(f"{spent_us:.1f}", f"  {stage}")
    table.add_row(f"{shares.callers_cpu_us:.1f}", "CPU of the callers' thread")
    for thread, spent_us in sorted(shares.collector_us.items()):
        table.add_row(f"{spent_us:.1f}", f"of these, the garbage collector in {thread}")
    console.print(table)
    console.print(
        f"{shares.count:,} life cycles in {shares.batch_count:,} batches;"
        f" {shares.conflict_count} conflicts"
    )
    lines = _apart(_take_lines, place, scale.profile_rounds)
    _show_lines(console, "by own time", sorted(lines, key=lambda line: -line.own_us))
    _show_lines(console, "with callees", sorted(lines, key=lambda line: -line.total_us))


def _show_lines(console: Console, order: str, lines: Sequence[Line]) -> None:
    table = Table(
        *("own, µs", "with callees, µs", "calls", "function of the writer's thread"),
        title=f"per life cycle, {order}; the profiler makes every call dearer",
        title_justify="left",
    )
    for column in table.columns[:3]:
        column.justify = "right"
    for line in lines[:LINE_COUNT]:
        figures = (f"{line.own_us:.2f}", f"{line.total_us:.2f}", f"{line.calls:.3f}")
        table.add_row(*figures, line.name)
    console.print(table)


def _apart(take: Callable[[str, Durability, int], T], place: Place, rounds: int) -> T:
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(max_workers=1, mp_context=context) as pool,
        place.new_database() as url,
    ):
        return pool.submit(take, url, place.durability, rounds).result()


def _take_shares(url: str, durability: Durability, rounds: int) -> Shares:
    return asyncio.run(_shares(url, durability, rounds))


def _take_lines(url: str, durability: Durability, rounds: int) -> list[Line]:
    # The thread's own time, without the time in which other threads use the processor or hold
    # the interpreter's lock.
    profile = cProfile.Profile(time.thread_time_ns, 1e-9)
    with _profiling_writer(profile):
        shares = asyncio.run(_shares(url, durability, rounds))
    entries: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return [
        Line(
            name=_function_name(*function),
            calls=calls / shares.count,
            own_us=own_s / shares.count * 1e6,
            total_us=total_s / shares.count * 1e6,
        )
        for function, (_, calls, own_s, total_s, _) in entries.items()
    ]


def _function_name(path: str, line: int, function: str) -> str:
    if path == "~":
        return function
    return f"{'/'.join(Path(path).parts[-2:])}:{line} {function}"


@contextmanager
def _profiling_writer(profile: cProfile.Profile) -> Iterator[None]:
    """Profile the thread that a store starts inside the block, until that thread ends."""

    def on_first_call(frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(None)
        if threading.current_thread().name == "headway-writer":
            profile.enable()

    threading.setprofile(on_first_call)
    try:
        yield
    finally:
        threading.setprofile(None)


async def _shares(url: str, durability: Durability, rounds: int) -> Shares:
    await upgrade(url, durability=durability)
    async with working_store(url, durability=durability) as (store, instance_id):
        writer = store.writer
        assert writer._thread.ident is not None
        writer_clock = time.pthread_getcpuclockid(writer._thread.ident)
        cycles = Cycles(store, instance_id)

        def clocks() -> tuple[float, float, float]:
            return time.perf_counter(), time.clock_gettime(writer_clock), time.thread_time()

        async with cycles.claiming():
            await repeat(cycles, callers=CALLERS, duration_s=0)
            batch_count, conflict_count = writer.batch_count, writer.conflict_count
            count, started = 0, clocks()
            with timed_collections() as collections, timed_stages(writer) as stages:
                for _ in range(rounds):
                    count += await repeat(cycles, callers=CALLERS, duration_s=0)
            ended = clocks()
        elapsed_us, writer_us, callers_us = (
            (after - before) / count * 1e6 for before, after in zip(started, ended, strict=True)
        )
        stages_us = {stage: spent_s / count * 1e6 for stage, spent_s in stages.spent_s.items()}
        stages_us[REST] = writer_us - sum(stages_us.values())
        return Shares(
            count=count,
            elapsed_us=elapsed_us,
            writer_cpu_us=writer_us,
            callers_cpu_us=callers_us,
            batch_count=writer.batch_count - batch_count,
            conflict_count=writer.conflict_count - conflict_count,
            stages_us=stages_us,
            collector_us={name: spent_s / count * 1e6 for name, spent_s in collections.items()},
        )
