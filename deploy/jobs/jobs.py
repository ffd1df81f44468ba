"""The jobs of compose.yaml: put your own in their place.

    curl -H "Authorization: Bearer $HEADWAY_TOKEN" -H "Content-Type: application/json" \
        -d '{"job": "greet", "key": "ann", "params": {"name": "ann"}}' http://127.0.0.1:8070/api/runs
"""

import asyncio

from headway import Headway, RunContext

hw = Headway()  # Its database is the one that HEADWAY_DATABASE_URL names.


@hw.job()
async def greet(ctx: RunContext, name: str) -> str:
    await asyncio.sleep(5)  # The long work.
    return f"hello, {name} (attempt {ctx.attempt})"
