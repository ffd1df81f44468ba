"""`python -m tests.bench.engine.flow_worker`: a worker with one service, until it is killed.

It prints its address. The process that starts it registers it, because there is no server here.
"""

import asyncio
from typing import Any

from aiohttp import web

from headway.process.dedicated import run_process
from headway.worker.service_registry import Services
from headway.worker.worker_server import CallServer
from tests.bench.engine.marks import FOR_EVER_S

services = Services()


@services
async def add_one(given: Any) -> int:
    return (given or 0) + 1


async def main() -> None:
    runner = web.AppRunner(CallServer(services).build_application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    print(f"http://127.0.0.1:{port}", flush=True)
    await asyncio.sleep(FOR_EVER_S)


if __name__ == "__main__":
    run_process(main())
