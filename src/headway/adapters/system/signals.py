"""Signals that ask a program to stop or to reload its configuration."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def call_on_hangup(action: Callable[[], None]) -> Iterator[None]:
    """Call `action` in the event loop on each SIGHUP until the `with` block ends.

    A process that was started with SIGHUP ignored (`nohup`) continues to ignore it.
    """
    previous_handler = signal.getsignal(signal.SIGHUP)
    if previous_handler is signal.SIG_IGN:
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
        signal.signal(signal.SIGHUP, previous_handler or signal.SIG_DFL)


async def wait_for_stop_signal() -> signal.Signals:
    """Wait for SIGINT (Ctrl-C) or SIGTERM, and return the signal.

    The previous handlers are restored afterwards. A signal that was ignored when this process
    started, such as SIGINT after a shell's `&`, stays ignored.
    """
    loop = asyncio.get_running_loop()
    received: asyncio.Future[signal.Signals] = loop.create_future()
    previous_handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    handled_numbers = [
        number for number, handler in previous_handlers.items() if handler is not signal.SIG_IGN
    ]

    def handle(number: signal.Signals) -> None:
        if not received.done():
            received.set_result(number)

    try:
        for number in handled_numbers:
            loop.add_signal_handler(number, handle, number)
    except (RuntimeError, ValueError) as error:
        raise RuntimeError("signals can be awaited in the main thread only") from error
    try:
        return await received
    finally:
        for number in handled_numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, previous_handlers[number] or signal.SIG_DFL)
