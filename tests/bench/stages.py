"""The CPU time of the writer's thread, by stage.

Only a few clock reads per batch, so that the rates do not change, unlike with a profiler.
"""

import gc
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from headway.adapters.sql.write.load import load_batch_state
from headway.adapters.sql.write.write_changes import write_changes
from headway.adapters.sql.write.writer import Writer

LOAD: Final = "load: query the rows, convert them to values"
DECIDE: Final = "decide"
WRITE: Final = "write: convert the changes to rows"
DRIVER_FETCH: Final = "driver: fetch"
DRIVER_WRITE: Final = "driver: write"
DRIVER_COMMIT: Final = "driver: begin, commit"
REST: Final = "rest: queue, needs, answers, event loop"
_LINK_STAGES: Final = {
    "fetch": DRIVER_FETCH,
    "fetch_each": DRIVER_FETCH,
    "write": DRIVER_WRITE,
    "begin": DRIVER_COMMIT,
    "commit": DRIVER_COMMIT,
    "rollback": DRIVER_COMMIT,
}


class StageClock:
    """Adds up, for each stage, the time of the thread that it is used in."""

    def __init__(self) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self._loaded_s = 0.0

    def around(self, call: Callable[..., Awaitable[Any]], stage: str) -> Callable[..., Any]:
        """Wrap `call`: add its time to `stage`, without that of its inner calls."""

        async def timed(*arguments: Any, **options: Any) -> Any:
            inner_s, started_s = self._total_s(), time.thread_time()
            try:
                return await call(*arguments, **options)
            finally:
                inner_s = self._total_s() - inner_s
                self.spent_s[stage] += time.thread_time() - started_s - inner_s

        return timed

    def loading(self, load: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        timed = self.around(load, LOAD)

        async def load_and_note(*arguments: Any, **options: Any) -> Any:
            batch = await timed(*arguments, **options)
            self._loaded_s = time.thread_time()
            return batch

        return load_and_note

    def has_decided(self) -> None:
        """Called by the first write of a batch: the time since the load was spent on decisions."""
        if self._loaded_s:
            self.spent_s[DECIDE] += time.thread_time() - self._loaded_s
            self._loaded_s = 0.0

    def _total_s(self) -> float:
        return sum(self.spent_s.values())


class TimedLink:
    def __init__(self, link: Any, clock: StageClock) -> None:
        self._link = link
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._link, name)
        if name not in _LINK_STAGES:
            return member
        if name in ("write", "rollback"):
            self._clock.has_decided()
        return self._clock.around(member, _LINK_STAGES[name])


@contextmanager
def timed_stages(writer: Writer) -> Iterator[StageClock]:
    """Time the batches of `writer` inside the block. It must be idle at both ends."""
    clock, link = StageClock(), writer._link
    timed_link: Any = TimedLink(link, clock)
    load, write = clock.loading(load_batch_state), clock.around(write_changes, WRITE)
    with mock.patch.multiple(Writer.__module__, load_batch_state=load, write_changes=write):
        writer._link = timed_link
        try:
            yield clock
        finally:
            writer._link = link


@contextmanager
def timed_collections() -> Iterator[dict[str, float]]:
    """Collect the time of the garbage collector in each thread, by the thread's name."""
    spent_s: defaultdict[str, float] = defaultdict(float)
    started_s = 0.0  # Only one collection runs at a time, because it holds the interpreter's lock.

    def note(phase: str, _: dict[str, int]) -> None:
        nonlocal started_s
        if phase == "start":
            started_s = time.thread_time()
        else:
            spent_s[threading.current_thread().name] += time.thread_time() - started_s

    gc.callbacks.append(note)
    try:
        yield spent_s
    finally:
        gc.callbacks.remove(note)
