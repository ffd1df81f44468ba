"""A local chat endpoint with scripted replies, for the demonstration and the tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web


class Script:
    """Calls a tool on `delete`, pauses on `wait`, never ends on `count`, and echoes the rest."""

    def __init__(self, delta_delay_s: float = 0.0) -> None:
        self.delta_delay_s = delta_delay_s
        self.paused = asyncio.Event()
        self.resume = asyncio.Event()
        self.requests: list[list[dict[str, Any]]] = []

    async def deltas(self, messages: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        last, text = messages[-1], str(messages[-1]["content"])
        if last["role"] == "system" or "wait" in text:
            yield {"content": "Well, "}
            self.paused.set()
            await self.resume.wait()
        if last["role"] == "user" and "delete" in text:
            arguments = json.dumps({"count": 9})
            function = {"name": "delete_notes", "arguments": arguments[:5]}
            yield {
                "tool_calls": [{"index": 0, "id": f"call-{len(messages)}", "function": function}]
            }
            yield {"tool_calls": [{"index": 0, "function": {"arguments": arguments[5:]}}]}
            return
        number = 0
        while "count" in text:
            number += 1
            yield {"content": f"{number} "}
        for word in f"you said: {text}".split():
            yield {"content": f"{word} "}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body["messages"])
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionError):  # The client has disconnected.
            async for delta in self.deltas(body["messages"]):
                chunk = json.dumps({"choices": [{"delta": delta}]})
                await response.write(f"data: {chunk}\n\n".encode())
                await asyncio.sleep(self.delta_delay_s)
            await response.write(b"data: [DONE]\n\n")
        return response


@asynccontextmanager
async def serve(script: Script) -> AsyncIterator[str]:
    """Serve the script on a free port of the loopback interface. Yield the base URL."""
    application = web.Application()
    application.router.add_post("/v1/chat/completions", script.handle)
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
