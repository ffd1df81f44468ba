"""The application of the deploy rehearsal: `headway serve --app tests.rehearsal.jobs:hw`.

Every job appends a line to the file in REHEARSAL_LEDGER, which records each execution outside of
the database.
"""

import asyncio
import json
import os
from typing import Any

from headway import Headway, RunContext
from headway.worker.service_registry import Services

hw = Headway()
services = Services()


def append_line(kind: str, *fields: object) -> None:
    """Append a line with one write, so that the file has all of it or nothing."""
    line = " ".join([kind, *map(str, fields)]) + "\n"
    ledger = os.open(os.environ["REHEARSAL_LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)


@hw.job(concurrency=50)
async def agent(ctx: RunContext) -> Any:
    append_line("started", ctx.run_id, ctx.generation)
    answer = await ctx.interrupt({"tool": "deploy", "args": ["production"]}, timeout_s=900)
    append_line("answered", ctx.run_id, json.dumps(answer, separators=(",", ":")))
    return answer


@hw.job(concurrency=50)
async def sleeper(ctx: RunContext) -> str:
    append_line("started", ctx.run_id, ctx.generation)
    await ctx.sleep(2)
    return "rested"


@hw.job(concurrency=4)
async def work(ctx: RunContext, number: int) -> int:
    append_line("started", ctx.run_id, ctx.generation)
    await asyncio.sleep(0.05 + number % 5 * 0.1)
    return number


@services
async def credit(order: str) -> str:
    append_line("credit", order)
    return "good"


@services
async def ship(order: str) -> str:
    append_line("ship", order)
    return "shipped"
