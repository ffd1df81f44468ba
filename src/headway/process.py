"""A process that is there to work: a quicker event loop, and garbage looked for less often."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar

NEW_OBJECT_COUNT: Final = 10_000
"""So many more objects than before, and the young ones are looked through (Python's own: 700)."""
ROUND_COUNT: Final = 10

T = TypeVar("T")


def run_process(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` for a program whose business is headway, as `headway serve` is.

    The loop is uvloop's where that is installed. What was imported so far is left out of every
    later search for garbage, and searches are rarer: thousands of short runs a second leave little
    that is not freed at once.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECT_COUNT, ROUND_COUNT, ROUND_COUNT)
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
