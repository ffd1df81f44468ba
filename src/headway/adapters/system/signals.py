"""The signals with which a person or an operating system asks a program to end."""

import asyncio
import signal
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def wait_for_signal() -> signal.Signals:
    """The first of Ctrl-C and SIGTERM; from then on they do again what they did before.

    One that this process was started to ignore (Ctrl-C, behind a shell's `&`) is left ignored.
    """
    loop = asyncio.get_running_loop()
    came: asyncio.Future[signal.Signals] = loop.create_future()
    before = {number: signal.getsignal(number) for number in SIGNALS}
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
