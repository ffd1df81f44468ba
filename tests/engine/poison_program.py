"""A program with jobs that end their process: `python -m tests.engine.poison_program URL LOOP`.

A supervisor restarts it repeatedly. Each execution of a job appends a line in POISON_FOLDER.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway import BlockingRunContext, Headway, RunContext
from headway.process.dedicated import run_process
from headway.services.engine import engine


def note_execution(job: str) -> None:
    with Path(os.environ["POISON_FOLDER"], job).open("a") as executions:
        executions.write(f"{os.getpid()}\n")


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def raise_error(error: BaseException) -> None:
    raise error


WAYS: dict[str, Callable[[], Any]] = {
    "SIGKILL": lambda: send(signal.SIGKILL),
    "SIGTERM": lambda: send(signal.SIGTERM),
    "SIGINT": lambda: send(signal.SIGINT),
    "SIGSEGV": lambda: send(signal.SIGSEGV),
    "os._exit": lambda: os._exit(3),
    "os.abort": os.abort,
    "sys.exit": lambda: sys.exit(3),
    "KeyboardInterrupt": lambda: raise_error(KeyboardInterrupt()),
    "GeneratorExit": lambda: raise_error(GeneratorExit()),
    "closed files": lambda: os.closerange(3, 4_096),
    "blocked loop": lambda: time.sleep(600),
    "fork": os.fork,
}


async def deadly(ctx: RunContext, how: str) -> str:
    note_execution("deadly")
    pid = WAYS[how]()
    if how == "fork":
        await asyncio.sleep(0)  # Both the parent and the child return to the event loop.
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        return f"the child ended with {os.waitstatus_to_exitcode(status)}"
    await asyncio.sleep(600)
    return "unreachable"


def deadly_plain(ctx: BlockingRunContext, how: str) -> str:
    note_execution("deadly_plain")
    pid = WAYS[how]()
    if how == "fork":
        if pid == 0:
            return "of the child"
        _, status = os.waitpid(pid, 0)
        return f"the child ended with {os.waitstatus_to_exitcode(status)}"
    while not ctx.canceled:
        time.sleep(0.01)
    raise asyncio.CancelledError


async def deadly_child_task(ctx: RunContext, how: str) -> str:
    """Fork or exit in a task of the job. asyncio ends the loop when a task exits."""
    note_execution("deadly_child_task")

    async def end() -> Any:
        return WAYS[how]()

    pid = await asyncio.create_task(end())
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    return f"the child ended with {os.waitstatus_to_exitcode(status)}"


def never_unwinds(ctx: BlockingRunContext, how: str) -> None:
    note_execution("never_unwinds")
    WAYS[how]()
    threading.Event().wait()


async def multiprocesses(ctx: RunContext, how: str) -> int | None:
    process = multiprocessing.get_context("fork").Process(target=note_execution, args=(how,))
    process.start()
    await asyncio.to_thread(process.join)
    return process.exitcode


async def deadly_function(how: str) -> None:
    note_execution("deadly_function")
    WAYS[how]()
    await asyncio.sleep(600)


async def works(ctx: RunContext) -> str:
    note_execution("works")
    return "done"


def make_headway(url: str) -> Headway:
    hw = Headway(url, lease_ttl_s=2.0, stop_wait_s=0.0)
    for job in (deadly, deadly_plain, deadly_child_task, never_unwinds, multiprocesses, works):
        hw.job(lane="narrow", retries=2)(job)
    hw.flows.function(deadly_function)
    return hw


async def main() -> None:
    async with make_headway(sys.argv[1]) as hw:
        await hw.wait_for_signal()


if __name__ == "__main__":
    # A shell may have started the tests with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine.UNWIND_S = 0.3  # type: ignore[misc]
    run = asyncio.run if sys.argv[2] == "asyncio" else run_process
    with contextlib.suppress(KeyboardInterrupt):
        run(main())
