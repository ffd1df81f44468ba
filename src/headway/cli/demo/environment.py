"""The demo's environment: a server in this process, a worker process, a temporary database."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from headway.api.http.access import Access
from headway.api.server import serve
from headway.app import Headway
from headway.cli.client.api_client import ApiError, Client
from headway.cli.client.http_client import open_http
from headway.core.errors import ConfigurationError
from headway.services.context.run_context import RunContext

HOST: Final = "127.0.0.1"
PORTS: Final = (8070, 0)
"""The default port, or a free one if it is in use."""
SERVICES: Final = "headway.cli.demo.demo_services:services"
POLL_S: Final = 0.05
STOP_TIMEOUT_S: Final = 5.0
WORKER_EXITED: Final = "the worker of the demo exited"


class DemoEnvironment(NamedTuple):
    client: Client
    address: str
    worker_url: str
    has_page: bool


@asynccontextmanager
async def open_environment(folder: Path) -> AsyncIterator[DemoEnvironment]:
    """Start the server and the worker. They are stopped when the `with` block ends.

    Ctrl-C stops the server. The task that runs the block is then canceled.
    """
    hw = Headway(f"sqlite:///{folder / 'demo.db'}")
    hw.job()(mirror)
    inner_task = asyncio.current_task()
    assert inner_task is not None
    async with hw:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = asyncio.create_task(_serve(hw, ready))
        # A signal stops the server. The demo cannot continue without it.
        cancel_inner_task = lambda _: inner_task.cancel()  # noqa: E731
        server.add_done_callback(cancel_inner_task)
        try:
            address = await ready
            async with _open_worker(address, folder) as log, open_http(address, None) as http:
                client = Client(http)
                has_page = (await http.request("GET", "/ui/", None, {})).status == 200
                # The worker of an earlier demo that was killed may be registered, too.
                workers = (await client.get("/api/workers"))["workers"]
                (url,) = [worker["url"] for worker in workers if worker["id"] in log]
                yield DemoEnvironment(client, address, url, has_page)
        except ApiError:  # A stopping server refuses requests: then treat it as Ctrl-C.
            await asyncio.wait([server], timeout=STOP_TIMEOUT_S)
            if server.done():
                raise asyncio.CancelledError from None
            raise
        finally:
            server.remove_done_callback(cancel_inner_task)
            server.cancel()
            await asyncio.wait([server])


async def mirror(ctx: RunContext, page_count: int, page_s: float) -> dict[str, int]:
    """Simulate a download. A continued run starts after the last page in its checkpoint."""
    state = ctx.checkpoint or {"page": 0}
    for page in range(state["page"] + 1, page_count + 1):
        share = random.uniform(0.5, 1.5)  # noqa: S311  # Not for security.
        await asyncio.sleep(share * page_s)
        await ctx.save_checkpoint({"page": page})
        await ctx.progress(downloaded=page, of=page_count)
    return {"pages": page_count}


async def _serve(hw: Headway, ready: asyncio.Future[str]) -> None:
    for port in PORTS:
        try:
            await serve(
                hw,
                host=HOST,
                port=port,
                access=Access(()),
                allowed_hosts=(),
                version=version("headway"),
                on_ready=ready.set_result,
            )
        except ConfigurationError as error:
            if port == PORTS[-1]:
                ready.set_exception(error)
        else:
            return


@asynccontextmanager
async def _open_worker(address: str, folder: Path) -> AsyncIterator[str]:
    """Start a worker process, wait until it is registered, and yield its log.

    The log contains the id of the worker.
    """
    log_path = folder / "worker.log"
    with log_path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headway.cli.demo.demo_worker", SERVICES, "--registry", address,
            stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        while b"worker_registered" not in log_path.read_bytes():
            if process.returncode is not None:
                raise ConfigurationError(f"{WORKER_EXITED}: {log_path.read_text().strip()[-500:]}")
            await asyncio.sleep(POLL_S)
        yield log_path.read_text()
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
