"""A program that starts a fatal job once: `python -m tests.engine.fatal_program URL HOW`."""

import asyncio
import os
import signal
import sys

from headway import Headway, RunContext
from headway.adapters.sql.write.links.sqlite_link import SqliteLink

hw = Headway(sys.argv[1], lease_ttl_s=2.0)
how = sys.argv[2]


def kill_self_during_a_write() -> None:
    """Kill this process in the writer's thread, right after its next BEGIN."""
    begin = SqliteLink.begin

    async def begin_and_kill_self(self: SqliteLink) -> None:
        await begin(self)
        os.kill(os.getpid(), signal.SIGKILL)

    SqliteLink.begin = begin_and_kill_self  # type: ignore[method-assign]


@hw.job()
async def fatal(ctx: RunContext) -> str:
    if how == "kills":
        os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if child == 0:
        if how == "child exits":
            os._exit(1)
        while True:  # Until the test kills it.
            signal.pause()
    if how == "child survives":
        print(child, flush=True)
        kill_self_during_a_write()
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    return f"the child ended with {os.waitstatus_to_exitcode(status)}"


@hw.job()
async def works(ctx: RunContext) -> str:
    return "done"


async def main() -> None:
    async with hw:
        run = await hw.submit("fatal", key="ann", idempotency_key="once")
        print(run.id, flush=True)
        print(await run.result(), flush=True)
        print(await (await hw.start("works", key="bob")).result(), flush=True)


asyncio.run(main())
