"""Signals by which a person or the operating system asks a program to end or to reload."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def call_on_hangup(action: Callable[[], None]) -> Iterator[None]:
    """Call `action` in the event loop on each SIGHUP inside the block.

    A process that was started with SIGHUP ignored (`nohup`) continues to ignore it.
    """
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        yield
        return
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGHUP, action)
    except (RuntimeError, ValueError) as error:
        raise RuntimeError("signals can be awaited in the main thread only") from error
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, before or signal.SIG_DFL)


async def wait_for_stop_signal() -> signal.Signals:
    """The first of Ctrl-C and SIGTERM; from then on they do again what they did before.

    One that this process was started to ignore (Ctrl-C, behind a shell's `&`) is left ignored.
    """
    loop = asyncio.get_running_loop()
    came: asyncio.Future[signal.Signals] = loop.create_future()
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    heeded = [number for number, does in before.items() if does is not signal.SIG_IGN]

    def note(number: signal.Signals) -> None:
        if not came.done():
            came.set_result(number)

    try:
        for number in heeded:
            loop.add_signal_handler(number, note, number)
    except (RuntimeError, ValueError) as error:
        raise RuntimeError("signals can be awaited in the main thread only") from error
    try:
        return await came
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number] or signal.SIG_DFL)
