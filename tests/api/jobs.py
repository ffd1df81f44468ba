"""The jobs of the servers in these tests. Each does what its name describes."""

import asyncio
from typing import Any

from headway.app import Headway
from headway.services.context.run_context import RunContext


async def echo(ctx: RunContext, said: Any = None) -> Any:
    return said


async def stay(ctx: RunContext) -> None:
    """Run until canceled."""
    await asyncio.Event().wait()


async def listen(ctx: RunContext) -> list[Any]:
    """Return the first messages that the run receives."""
    while not (messages := await ctx.messages()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # The job polls by itself.
    return messages


async def ask(ctx: RunContext) -> Any:
    return await ctx.interrupt(
        {"tool": "delete", "count": 9},
        schema={"type": "object", "required": ["approved"]},
        default={"approved": False},
        timeout_s=60,
    )


async def shout(ctx: RunContext, count: int, length: int) -> None:
    """Log `count` lines of `length` characters."""
    for number in range(count):
        await ctx.log(f"{number} {'x' * length}")


def register(hw: Headway) -> None:
    for job in (echo, stay, listen, ask, shout):
        hw.job(job)


def register_schedule(hw: Headway) -> None:
    hw.schedule("0 0 1 1 *", job="echo", name="yearly", params={"said": "happy new year"})
