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
COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}}
DELETE = {"name": "delete_notes", "description": "Delete the newest notes.", "parameters": COUNT}
TOOLS = [{"type": "function", "function": DELETE}]
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


def said(messages: list[Any]) -> list[Message]:
    return [{"role": "user", "content": one["text"]} for one in messages]


def tool_result(call: Message, result: str) -> Message:
    return {"role": "tool", "tool_call_id": call["id"], "content": result}


def calls_left(history: list[Message]) -> list[Message]:
    """Return the tool calls of the last reply that have no result yet; results come in order."""
    for made_count, one in enumerate(reversed(history)):
        if one["role"] != "tool":
            return list(one.get("tool_calls", ()))[made_count:]
    return []


class Agent:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    async def chat(self, ctx: RunContext, text: str) -> str:
        """The job: one turn of a conversation; what it said last."""
        saved = ctx.checkpoint or {"run_id": None, "history": []}
        history: list[Message] = saved["history"]
        if saved["run_id"] != ctx.run_id:  # Otherwise this is another execution of the same run.
            history += [tool_result(call, "cancelled") for call in calls_left(history)]
            history += said([{"text": text}])
        while True:  # Repeats only if a message came while the loop was ending.
            async with ctx.listening():
                history = await self._loop(ctx, history)
            heard = [] if ctx.cancelled else await ctx.messages()
            if not heard:
                return str(history[-1]["content"])
            history += said(heard)

    async def _loop(self, ctx: RunContext, history: list[Message]) -> list[Message]:
        for _ in range(STEPS_MAX):
            for call in calls_left(history):  # When it is executed again: those not made yet.
                is_allowed = await self._ask(ctx, call)
                if ctx.cancelled:  # The denial came from the cancel, not from a person: end.
                    return history
                history.append(await self._use(ctx, call, is_allowed=is_allowed))
                await ctx.save_checkpoint({"run_id": ctx.run_id, "history": history})
            history += said(await ctx.messages())
            await ctx.save_checkpoint({"run_id": ctx.run_id, "history": history})
            if history[-1]["role"] == "assistant":
                return history
            if sum(len(str(one["content"])) for one in history) > COMPACT_AT:
                history = await self._compacted(ctx, history)
            history.append(await self._reply(ctx, history))
            await ctx.save_checkpoint({"run_id": ctx.run_id, "history": history})
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

    async def _ask(self, ctx: RunContext, call: Message) -> bool:
        """Ask a person; no answer within five minutes is a no."""
        function = call["function"]
        question = {"tool": function["name"], "arguments": json.loads(function["arguments"])}
        answer = await ctx.interrupt(question, schema=PERMISSION, call_id=call["id"])
        return bool(answer and answer["approved"])

    async def _use(self, ctx: RunContext, call: Message, *, is_allowed: bool) -> Message:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        result = f"{arguments.get('count', 1)} notes deleted" if is_allowed else "not allowed"
        await ctx.emit("tool", {"name": name, "result": result})
        return tool_result(call, result)

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
