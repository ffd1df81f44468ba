"""A bad line between a browser and a server: it can swallow events, and ask for the wrong ones."""

from typing import Final, Self

import aiohttp
from aiohttp import web

BLOCK_END: Final = b"\n\n"
FAR_AHEAD: Final = 1_000_000
# What holds for one connection only.
NOT_PASSED_ON: Final = {"connection", "transfer-encoding", "content-length", "content-encoding"}


class BadLine:
    """Works inside `async with`."""

    def __init__(self, address: str) -> None:
        self._server = address
        self.swallows = False
        """Whether events are lost on the way."""
        self.asks_ahead = False
        """Whether the next subscription asks for events that are not there yet."""
        self.snapshot_count = 0

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(auto_decompress=True)
        application = web.Application()
        application.router.add_get("/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.address = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        is_stream = request.path == "/api/events"
        self.snapshot_count += request.path == "/api/state"
        query = dict(request.query)
        if is_stream and self.asks_ahead:
            self.asks_ahead = False
            query["after"] = str(int(query["after"]) + FAR_AHEAD)
        asked = self._session.get(
            f"{self._server}{request.path}",
            params=query,
            headers={"accept": request.headers.get("accept", "*/*")},
            timeout=aiohttp.ClientTimeout(total=None),
        )
        async with asked as answer:
            headers = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in NOT_PASSED_ON
            }
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            if is_stream:
                await self._stream(answer, response)
            else:
                await response.write(await answer.read())
            return response

    async def _stream(self, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        rest = b""
        async for chunk in answer.content.iter_any():
            *blocks, rest = (rest + chunk).split(BLOCK_END)
            for block in blocks:
                if not (self.swallows and b"data:" in block):
                    await response.write(block + BLOCK_END)
