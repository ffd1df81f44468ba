"""A process that is there to work: a quicker event loop, rarer searches for garbage, more files."""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar

GC_YOUNG_THRESHOLD: Final = 10_000
"""So many more objects than before, and the young ones are looked through (Python's own: 700)."""
GC_OLD_THRESHOLD: Final = 10
OPEN_FILE_COUNT_MAX: Final = 65_536

T = TypeVar("T")


def run_process(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` for a program whose business is headway, as `headway serve` is.

    The loop is uvloop's where that is installed. What was imported so far is left out of every
    later search for garbage, and searches are rarer: thousands of short runs a second leave little
    that is not freed at once.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG_THRESHOLD, GC_OLD_THRESHOLD, GC_OLD_THRESHOLD)
    return run_loop(main)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, on uvloop's loop where that is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes its loop; None is Python's own, for Windows has no uvloop."""
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


def open_file_count_max() -> int:
    """How many files and connections this process may have open at once."""
    if sys.platform == "win32":  # There is no such limit.
        return OPEN_FILE_COUNT_MAX
    import resource  # noqa: PLC0415  # Not there on Windows.

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILE_COUNT_MAX if soft == resource.RLIM_INFINITY else soft


def raise_open_file_limit() -> None:
    """Allow this process as many open files as the system would: the usual 1,024 are soon gone."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  # Not there on Windows.

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = OPEN_FILE_COUNT_MAX if hard == resource.RLIM_INFINITY else hard
    wanted = min(allowed, OPEN_FILE_COUNT_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # Some systems allow less than they say.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
