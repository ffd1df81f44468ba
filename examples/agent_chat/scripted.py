"""A local endpoint that says what is in its script: for the demo and the tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web


class Script:
    """`delete …` wants a tool, `wait …` pauses until told, `count` never ends; else an echo."""

    def __init__(self, word_s: float = 0.0) -> None:
        self.word_s = word_s
        self.waits = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.asked: list[list[dict[str, Any]]] = []

    async def deltas(self, messages: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        last, text = messages[-1], str(messages[-1]["content"])
        if last["role"] == "system" or "wait" in text:
            yield {"content": "Well, "}
            self.waits.set()
            await self.may_go_on.wait()
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

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.asked.append(asked["messages"])
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        with suppress(ConnectionError):  # Whoever asked wants no more of it.
            async for delta in self.deltas(asked["messages"]):
                chunk = json.dumps({"choices": [{"delta": delta}]})
                await reply.write(f"data: {chunk}\n\n".encode())
                await asyncio.sleep(self.word_s)
            await reply.write(b"data: [DONE]\n\n")
        return reply


@asynccontextmanager
async def served(script: Script) -> AsyncIterator[str]:
    """Its address, on loopback."""
    application = web.Application()
    application.router.add_post("/v1/chat/completions", script.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
