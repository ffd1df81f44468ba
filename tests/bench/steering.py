"""Measure how soon a run receives an answer or a cancel, in its process and from another instance.

SQLite sends no notification of a commit, so another instance receives it at once only through
Redis. Both instances are in one process, with stores of their own, so that one clock measures both.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from headway import Headway, RunContext, RunHandle
from tests.bench.crowd import HEADINGS as CROWD_HEADINGS
from tests.bench.crowd import Weighed, measure_crowd, show_crowd
from tests.bench.machine import Machine
from tests.bench.page import PAGE, replace_part, table
from tests.servers import start_redis

NAME: Final = "steering"
STEP_COUNT: Final = 9
FULL_COUNT: Final = 200
QUICK_COUNT: Final = 20
POLLED_COUNT: Final = 10
"""The count if only a poll finds the message, because each takes seconds."""
HEADINGS: Final = ("what", "from", "Redis", "n", "p50, ms", "p99, ms")
INTRODUCTION: Final = """\
## Steering a run

From the call of `run.answer` or `run.cancel` to the next line of the job, on SQLite, one at a time,
with default settings. *another instance* is a second `Headway` on the same file. Without Redis it
is found by a poll: of a run that asks every second, of any other every 5 s.
"""


@dataclass(frozen=True, slots=True)
class Steered:
    what: str
    source: str
    has_redis: bool
    times_ms: Sequence[float]

    def cells(self) -> list[str]:
        ordered = sorted(self.times_ms)
        last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        figures = f"{statistics.median(ordered):.1f}", f"{last:.1f}"
        return [
            self.what, self.source, "yes" if self.has_redis else "no", str(len(ordered)), *figures,
        ]  # fmt: skip


class Heard:
    """When the job continued."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.at_s = 0.0

    def register(self, hw: Headway) -> None:
        @hw.job(lane="bench")
        async def asks(ctx: RunContext) -> None:
            await ctx.interrupt("?")
            self.at_s = time.perf_counter()

        @hw.job(lane="bench")
        async def hangs(ctx: RunContext) -> None:
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.at_s = time.perf_counter()


@dataclass(slots=True)
class SteeringFigures:
    steered: list[Steered] = field(default_factory=list)
    weighed: list[Weighed] = field(default_factory=list)


def measure_steering(*, is_quick: bool, step: Callable[[str], None]) -> SteeringFigures:
    count = QUICK_COUNT if is_quick else FULL_COUNT
    server = start_redis()
    try:
        steered = list(_steered(server.url, count, step))
        step("steering: ten thousand questions")
        return SteeringFigures(steered, list(measure_crowd(server.url)))
    finally:
        server.stop()


def _steered(address: str, count: int, step: Callable[[str], None]) -> Iterator[Steered]:
    for redis_url in (None, address):
        for source in ("the same process", "another instance"):
            is_polled = redis_url is None and source == "another instance"
            for what in ("answer", "cancel"):
                step(f"steering: {what} from {source}")
                times_ms = asyncio.run(
                    _times_ms(
                        what,
                        redis_url,
                        is_elsewhere=source == "another instance",
                        count=min(count, POLLED_COUNT) if is_polled else count,
                    )
                )
                yield Steered(what, source, redis_url is not None, times_ms)


async def _times_ms(
    what: str, redis_url: str | None, *, is_elsewhere: bool, count: int
) -> list[float]:
    heard = Heard()
    async with _opened(redis_url, heard, is_elsewhere=is_elsewhere) as (here, speaker):
        await here.lanes.set("bench", max_concurrent=10)
        return [await _once(what, here, speaker, heard) for _ in range(count)]


@asynccontextmanager
async def _opened(
    redis_url: str | None, heard: Heard, *, is_elsewhere: bool
) -> AsyncIterator[tuple[Headway, Headway]]:
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as folder:
        url = f"sqlite:///{Path(folder, 'bench.db')}"
        here = Headway(url, redis_url=redis_url)
        heard.register(here)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(here)
            speaker = here
            if is_elsewhere:
                speaker = await stack.enter_async_context(Headway(url, redis_url=redis_url))
            yield here, speaker


async def _once(what: str, here: Headway, speaker: Headway, heard: Heard) -> float:
    heard.began.clear()
    run = await here.start("asks" if what == "answer" else "hangs")
    call_id = await _ready(what, here, run, heard)
    spoken_to = speaker.run(run.id)
    from_s = time.perf_counter()
    if what == "answer":
        await spoken_to.answer(call_id, "yes")
    else:
        await spoken_to.cancel()
    await run.wait_for_end()
    return (heard.at_s - from_s) * 1_000


async def _ready(what: str, here: Headway, run: RunHandle, heard: Heard) -> str:
    call_ids: list[Any] = [""]
    if what == "answer":
        while not (call_ids := list(await run.interrupts())):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    else:
        await heard.began.wait()
    while here.hint_relay is not None and run.id not in here.hint_relay.watched_run_ids:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    return str(call_ids[0])


def show_steering(console: Console, found: SteeringFigures) -> None:
    if not found.steered:
        return
    shown = Table(*HEADINGS)
    for one in found.steered:
        shown.add_row(*one.cells())
    console.print(shown)
    show_crowd(console, found.weighed)


def write_steering_part(
    found: SteeringFigures, machine: Machine, command: str, path: Path = PAGE
) -> None:
    lines = [
        INTRODUCTION,
        f"Repeat it with `{command}`.\n",
        *table(("measured on", ""), machine.lines()),
        "",
        *table(HEADINGS, [one.cells() for one in found.steered]),
        "",
        "Questions at the runtime store alone, all answered at once; with Redis, by another store:",
        "",
        *table(CROWD_HEADINGS, [one.cells() for one in found.weighed]),
        "",
    ]
    replace_part("steering", lines, path=path)
