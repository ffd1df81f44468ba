"""Prevent forked children of a program that executes runs from acting as a second engine.

`os.fork()` copies only the calling thread. A child that a job forks and that returns into the event
loop would share sockets, the poll set and database handles with its parent, and would execute the
other tasks of the loop a second time. The child therefore exits as soon as control returns from the
job: when the job's function yields or ends, when it calls its context, and before the loop runs
any other callback. It flushes and closes nothing, because all of that belongs to the parent.

A child that does not return from the job is left alone: `multiprocessing` runs its target and
exits, and a new `Headway` in the child has a fork mark of its own.
"""

import asyncio
import os
import threading
import types
from collections import deque
from collections.abc import Coroutine, Generator
from contextlib import suppress
from functools import cache
from typing import Any, Final, NoReturn, TypeVar
from weakref import WeakKeyDictionary

EXIT_CODE: Final = 70
_MESSAGE: Final = (
    b"headway: a child process forked by a job returned from the job and exits now."
    b" End such a child with os._exit().\n"
)

T = TypeVar("T")


class _Forks:
    """Counts the forks between this process and the one that imported headway."""

    def __init__(self) -> None:
        self.count = 0
        self.loops: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
        """The guarded event loops, each with the id of its thread."""

    def on_fork(self) -> None:
        """Make the child exit if it returns into a guarded loop of the thread that forked.

        Called in the child, in that thread.
        """
        self.count += 1
        for loop, thread_id in list(self.loops.items()):
            if thread_id == threading.get_ident() and not loop.is_closed():
                _exit_before_others(loop)
        self.loops.clear()


_forks: Final = _Forks()


@cache
def _register() -> None:
    os.register_at_fork(after_in_child=_forks.on_fork)


def fork_mark() -> int:
    """Return a number that differs in forked children, for `exit_if_forked`."""
    _register()
    return _forks.count


def exit_if_forked(mark: int) -> None:
    """Exit if this process is a child that was forked after `mark` was taken."""
    if _forks.count != mark:
        _exit()


def guard_loop() -> None:
    """Make a forked child exit if it returns into the running event loop.

    The child exits before any other callback runs.
    """
    _register()
    _forks.loops[asyncio.get_running_loop()] = threading.get_ident()


@types.coroutine
def run_guarded(coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Await `coroutine`, and exit if it yields or ends in a child that it has forked."""
    mark = fork_mark()
    value: Any = None
    error: BaseException | None = None
    while True:  # Until the coroutine ends. This is `yield from`, with a check after each step.
        try:
            awaited = coroutine.send(value) if error is None else coroutine.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            exit_if_forked(mark)
        value = error = None
        try:
            value = yield awaited
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as thrown:
            error = thrown


def _exit_before_others(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(_exit)
    ready = getattr(loop, "_ready", None)  # asyncio's loop has it; uvloop's does not expose it.
    if isinstance(ready, deque):
        ready.rotate(1)


def _exit() -> NoReturn:
    with suppress(OSError):
        os.write(2, _MESSAGE)
    os._exit(EXIT_CODE)
