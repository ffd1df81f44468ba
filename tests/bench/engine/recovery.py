"""Kill a process in the middle of its jobs, and measure when all of them run again elsewhere."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Final

from tests.bench.engine.contestants import Entry
from tests.bench.engine.marks import mark_count
from tests.bench.engine.order import Answer, Order
from tests.bench.engine.process import DidNotFinish, Ground, start

START_TIMEOUT_S: Final = 60.0
SETTLE_S: Final = 4.0
"""The second process is ready and idle after this time."""
GIVE_UP_S: Final = 60.0
LOOK_S: Final = 0.01


def recover(entry: Entry, url: str, ground: Ground) -> Answer:
    """Measure the time from the kill until all jobs have begun again; infinite if not in time.

    The second process runs idle before the kill. If only a process of the same name resumes the
    jobs, it is started at the kill instead.
    """
    with tempfile.TemporaryDirectory(prefix="headway-race-") as folder:
        order = replace(entry.order, url=url, marks_folder=folder)
        with _running(entry, replace(order, role="first"), ground) as first:
            _wait_for_marks(order, first, role="first")
            if entry.contestant.is_restarted:
                first.kill()
                return _time_until_again(entry, order, ground, time.perf_counter())
            with _running(entry, replace(order, role="second"), ground) as second:
                time.sleep(SETTLE_S)
                first.kill()
                return _time_marks(order, second, time.perf_counter())


def _time_until_again(entry: Entry, order: Order, ground: Ground, killed_at_s: float) -> Answer:
    with _running(entry, replace(order, role="second"), ground) as second:
        return _time_marks(order, second, killed_at_s)


@contextmanager
def _running(entry: Entry, order: Order, ground: Ground) -> Iterator[subprocess.Popen[str]]:
    with start(entry, order, ground, is_silent=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for_marks(order: Order, process: subprocess.Popen[str], *, role: str) -> None:
    until_s = time.perf_counter() + START_TIMEOUT_S
    while (count := mark_count(Path(order.marks_folder), role)) < order.job_count:
        if process.poll() is not None:
            raise DidNotFinish(f"it ended with {process.returncode}")
        if time.perf_counter() > until_s:
            raise DidNotFinish(f"only {count} jobs had begun in {START_TIMEOUT_S:g} s")
        time.sleep(LOOK_S)


def _time_marks(order: Order, process: subprocess.Popen[str], killed_at_s: float) -> Answer:
    elapsed_s = 0.0
    while mark_count(Path(order.marks_folder), "second") < order.job_count:
        elapsed_s = time.perf_counter() - killed_at_s
        if process.poll() is not None:
            raise DidNotFinish(f"the second process ended with {process.returncode}")
        if elapsed_s > GIVE_UP_S:
            return Answer(count=order.job_count, elapsed_s=inf)
        time.sleep(LOOK_S)
    return Answer(count=order.job_count, elapsed_s=time.perf_counter() - killed_at_s)
