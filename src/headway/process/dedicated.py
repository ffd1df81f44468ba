"""Process-wide set-up of a dedicated program: event loop, garbage collector, open files."""

import asyncio
import gc
import resource
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

GC_YOUNG_THRESHOLD: Final = 10_000
"""New objects between two collections of the youngest generation. Python's default is 700."""
GC_OLD_THRESHOLD: Final = 10
OPEN_FILE_COUNT_MAX: Final = 65_536

T = TypeVar("T")


def run_process(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` as `asyncio.run` does, in a program dedicated to headway such as `serve`.

    The event loop is uvloop's. Objects that exist already, mostly of imported modules, are excluded
    from garbage collection, and collections are less frequent. Thousands of short runs per second
    create few reference cycles, so little garbage waits for a collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG_THRESHOLD, GC_OLD_THRESHOLD, GC_OLD_THRESHOLD)
    return run_loop(main)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` as `asyncio.run` does, on uvloop's event loop."""
    from uvloop import new_event_loop  # noqa: PLC0415  # Importing headway does not load uvloop.

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def open_file_count_max() -> int:
    """Return how many files and connections this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILE_COUNT_MAX if soft == resource.RLIM_INFINITY else soft


def raise_open_file_limit() -> None:
    """Raise the soft limit of open files to the hard one, at most to OPEN_FILE_COUNT_MAX.

    The usual soft limit of 1,024 is too low for a server with many connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard_limit = OPEN_FILE_COUNT_MAX if hard == resource.RLIM_INFINITY else hard
    target = min(hard_limit, OPEN_FILE_COUNT_MAX)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(ValueError, OSError):  # Some systems allow less than they report.
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
