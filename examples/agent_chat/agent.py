"""A chat agent as a job: it streams, asks before it uses a tool, and takes messages in between.

A conversation is a key, a turn is a run. What was said is its checkpoint, so a crash costs a step,
and the next turn goes on with it (`hw.continue_`).
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from headway import RunContext

COMPACT_AT = 4_000  # Characters of history.
COMPACTION_S = 120.0
STEPS_MAX = 50
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "delete_notes",
            "description": "Delete the newest notes of the user.",
            "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}},
        },
    }
]
PERMISSION = {
    "type": "object",
    "required": ["approved"],
    "properties": {"approved": {"type": "boolean", "title": "Let it?"}},
}
Message = dict[str, Any]


class Endpoint:
    """Any server that speaks the OpenAI chat protocol."""

    def __init__(self, url: str, *, model: str = "scripted", secret: str = "") -> None:
        self.url, self.model = url.rstrip("/"), model
        self.headers = {"authorization": f"Bearer {secret}"} if secret else {}

    async def deltas(self, messages: list[Message], **more: Any) -> AsyncIterator[Message]:
        asked = {"model": self.model, "messages": messages, "stream": True, **more}
        async with (
            aiohttp.ClientSession(headers=self.headers) as session,
            session.post(f"{self.url}/chat/completions", json=asked) as reply,
        ):
            if reply.status != 200:
                raise RuntimeError(f"{self.url} answered {reply.status}: {await reply.text()}")
            async for line in reply.content:
                said = line.decode().strip().removeprefix("data: ")
                if said == "[DONE]":
                    return
                if said.startswith("{") and (choices := json.loads(said)["choices"]):
                    yield choices[0]["delta"]


class Agent:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    async def chat(self, ctx: RunContext, text: str) -> str:
        """The job: one turn of a conversation; what it said last."""
        history: list[Message] = ctx.checkpoint or []
        heard: list[Any] = [{"text": text}]
        while heard:  # More than once only if a message came while the loop was ending.
            history += [{"role": "user", "content": one["text"]} for one in heard]
            async with ctx.listening():
                history = await self._loop(ctx, history)
            heard = await ctx.messages()
        return str(history[-1]["content"])

    async def _loop(self, ctx: RunContext, history: list[Message]) -> list[Message]:
        for _ in range(STEPS_MAX):
            heard = await ctx.messages()
            history += [{"role": "user", "content": one["text"]} for one in heard]
            if sum(len(str(one["content"])) for one in history) > COMPACT_AT:
                history = await self._compacted(ctx, history)
            reply = await self._reply(ctx, history)
            history.append(reply)
            for call in reply.get("tool_calls", ()):
                history.append(await self._used(ctx, call))
            await ctx.save_checkpoint(history)
            if "tool_calls" not in reply:
                return history
        raise RuntimeError(f"it did not come to an end within {STEPS_MAX} steps")

    async def _reply(self, ctx: RunContext, history: list[Message]) -> Message:
        """Stream an answer, word by word; a tool that it wants comes in pieces too."""
        content, calls = "", dict[int, Message]()
        async for delta in self.endpoint.deltas(history, tools=TOOLS):
            if text := delta.get("content"):
                content += text
                await ctx.emit("token", {"text": text})
            for piece in delta.get("tool_calls") or ():
                function = {"name": "", "arguments": ""}
                empty = {"id": piece.get("id"), "type": "function", "function": function}
                call = calls.setdefault(piece["index"], empty)
                for name, part in piece["function"].items():
                    call["function"][name] += part or ""
        reply: Message = {"role": "assistant", "content": content}
        return reply | {"tool_calls": list(calls.values())} if calls else reply

    async def _used(self, ctx: RunContext, call: Message) -> Message:
        """Nothing is done unless a person says so; no answer within five minutes is a no."""
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        question = {"tool": name, "arguments": arguments}
        answer = await ctx.interrupt(question, schema=PERMISSION, call_id=call["id"])
        is_allowed = bool(answer and answer["approved"])
        result = f"{arguments.get('count', 1)} notes deleted" if is_allowed else "not allowed"
        await ctx.emit("tool", {"name": name, "result": result})
        return {"role": "tool", "tool_call_id": call["id"], "content": result}

    async def _compacted(self, ctx: RunContext, history: list[Message]) -> list[Message]:
        """A summary instead of all but the last word; if that takes too long, all of it."""
        wanted = [*history, {"role": "system", "content": "Summarise the conversation."}]
        try:
            async with ctx.compacting(timeout_s=COMPACTION_S):
                deltas = [delta async for delta in self.endpoint.deltas(wanted)]
        except TimeoutError:
            await ctx.log("the compaction took too long", level="warning")
            return history
        summary = "".join(delta.get("content") or "" for delta in deltas)
        return [{"role": "system", "content": summary}, history[-1]]
