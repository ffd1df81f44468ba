"""Where the demo happens: a server in this process, a worker in another, a database for an hour."""

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
"""The usual one, or a free one if that is taken."""
SERVICES: Final = "headway.cli.demo.demo_services:services"
POLL_S: Final = 0.05
STOP_TIMEOUT_S: Final = 5.0
WORKER_EXITED: Final = "the worker of the demo has ended"


class DemoEnvironment(NamedTuple):
    client: Client
    address: str
    worker_url: str
    """Its address."""
    has_page: bool


@asynccontextmanager
async def open_environment(folder: Path) -> AsyncIterator[DemoEnvironment]:
    """Everything at work; it ends when this is left, or by Ctrl-C, which cancels who is inside."""
    hw = Headway(f"sqlite:///{folder / 'demo.db'}")
    hw.job()(mirror)
    inside = asyncio.current_task()
    assert inside is not None
    async with hw:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(_serve(hw, ready))
        # A signal ends the server, in good order; then nothing has any sense that goes on here.
        ends = lambda _: inside.cancel()  # noqa: E731
        serving.add_done_callback(ends)
        try:
            address = await ready
            async with _open_worker(address, folder) as said, open_http(address, None) as http:
                client = Client(http)
                has_page = (await http.request("GET", "/ui/", None, {})).status == 200
                # Another may be left of a demo that was killed.
                workers = (await client.get("/api/workers"))["workers"]
                (url,) = [one["url"] for one in workers if one["id"] in said]
                yield DemoEnvironment(client, address, url, has_page)
        except ApiError:  # By a server that has been told to stop, and ends soon; else it is meant.
            await asyncio.wait([serving], timeout=STOP_TIMEOUT_S)
            if serving.done():
                raise asyncio.CancelledError from None
            raise
        finally:
            serving.remove_done_callback(ends)
            serving.cancel()
            await asyncio.wait([serving])


async def mirror(ctx: RunContext, page_count: int, page_s: float) -> dict[str, int]:
    """Pretend to download pages; what it did is saved, so that Continue would go on from there."""
    state = ctx.checkpoint or {"page": 0}
    for page in range(state["page"] + 1, page_count + 1):
        share = random.uniform(0.5, 1.5)  # noqa: S311  # Nothing is at stake.
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
    """A worker process, once the server knows it, and what it has said by then: its id, too."""
    said = folder / "worker.log"
    with said.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headway.cli.demo.demo_worker", SERVICES, "--registry", address,
            stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        while b"worker_registered" not in said.read_bytes():
            if process.returncode is not None:
                raise ConfigurationError(f"{WORKER_EXITED}: {said.read_text().strip()[-500:]}")
            await asyncio.sleep(POLL_S)
        yield said.read_text()
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
