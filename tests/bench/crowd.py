"""Ten thousand open interrupts at one runtime store: their memory, and how soon all wake."""

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from headway.core.ids import RunId
from tests.runtime.scenes import YES, Runtime, _sleeping, open_runtime, until

COUNT: Final = 10_000
PAGE_BYTES: Final = 4_096
MB: Final = 1_000_000
HEADINGS: Final = ("store", "open interrupts", "MB above none", "ms until all are awake")


@dataclass(frozen=True, slots=True)
class Weighed:
    store: str
    count: int
    bytes_count: int
    wake_s: float

    def cells(self) -> list[str]:
        size_mb, wake_ms = self.bytes_count / MB, self.wake_s * 1_000
        return [self.store, f"{self.count:,}", f"{size_mb:.0f}", f"{wake_ms:,.0f}"]


def measure_crowd(redis_url: str, *, count: int = COUNT) -> Iterator[Weighed]:
    for store, url in (("memory", None), ("Redis", redis_url)):
        # A process of its own: the memory of earlier work would hide the cost of this one.
        with get_context("spawn").Pool(1) as pool:
            bytes_count, wake_s = pool.apply(_weighed, (url, count))
        yield Weighed(store, count, bytes_count, wake_s)


def _weighed(url: str | None, count: int) -> tuple[int, float]:
    return asyncio.run(_weigh(url, count))


async def _weigh(url: str | None, count: int) -> tuple[int, float]:
    run_ids = [RunId(str(uuid4())) for _ in range(count)]
    async with open_runtime(url) as store, open_runtime(url) as other, asyncio.TaskGroup() as group:
        speaker = store if url is None else other
        await store.create_interrupt(RunId("warm-up"), "1.1")
        await speaker.resolve_interrupt(RunId("warm-up"), "1.1", YES)
        gc.collect()
        before = _resident_bytes()
        waits = [group.create_task(store.wait_for_interrupt(run_id, "1.1")) for run_id in run_ids]
        await until(lambda: _all_sleep(store, run_ids), what="all wait")
        weight = _resident_bytes() - before
        from_s = time.perf_counter()
        await asyncio.gather(*(speaker.resolve_interrupt(run_id, "1.1", YES) for run_id in run_ids))
        await asyncio.gather(*waits)
        return weight, time.perf_counter() - from_s


def _all_sleep(store: Runtime, run_ids: Sequence[RunId]) -> bool:
    return len(_sleeping(store, run_ids[-1])) > 0 and _count(store) >= len(run_ids)


def _count(store: Runtime) -> int:
    waits = getattr(store, "_waits", None)
    if waits is None:
        interrupts = vars(store)["_interrupts"].values()
        return sum(
            bool(state.waiters) for by_call_id in interrupts for state in by_call_id.values()
        )
    return sum(bool(wait._wake_event._waiters) for wait in waits)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def show_crowd(console: Console, found: Sequence[Weighed]) -> None:
    if found:
        shown = Table(*HEADINGS)
        for one in found:
            shown.add_row(*one.cells())
        console.print(shown)
