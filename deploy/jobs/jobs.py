"""The jobs that compose.yaml serves. Replace them with your own.

    curl -H "Authorization: Bearer $HEADWAY_TOKEN" -H "Content-Type: application/json" \
        -d '{"job": "greet", "key": "ann", "params": {"name": "ann"}}' http://127.0.0.1:8070/api/runs
"""

import asyncio

from headway import Headway, RunContext

hw = Headway()  # Connects to the database in HEADWAY_DATABASE_URL.


@hw.job()
async def greet(ctx: RunContext, name: str) -> str:
    await asyncio.sleep(5)  # Stands for long work.
    return f"hello, {name} (attempt {ctx.attempt})"
