"""A chat agent as a job: streams replies, asks before tool calls, accepts messages between steps.

A conversation is a key, and each turn is a run. The history is the checkpoint: a crash repeats at
most one step, and the next turn starts with the stored history (`hw.continue_`).
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from headway import RunContext

COMPACT_AT_CHARS = 4_000  # Length of the history.
COMPACTION_TIMEOUT_S = 120.0
STEP_COUNT_MAX = 50
COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}}
DELETE = {"name": "delete_notes", "description": "Delete the newest notes.", "parameters": COUNT}
TOOLS = [{"type": "function", "function": DELETE}]
PERMISSION = {
    "type": "object",
    "required": ["approved"],
    "properties": {"approved": {"type": "boolean", "title": "Allow it?"}},
}
Message = dict[str, Any]


class Endpoint:
    """A client of any server that implements the OpenAI chat protocol."""

    def __init__(self, url: str, *, model: str = "scripted", secret: str = "") -> None:
        self.url, self.model = url.rstrip("/"), model
        self.headers = {"authorization": f"Bearer {secret}"} if secret else {}

    async def deltas(self, messages: list[Message], **options: Any) -> AsyncIterator[Message]:
        body = {"model": self.model, "messages": messages, "stream": True, **options}
        async with (
            aiohttp.ClientSession(headers=self.headers) as session,
            session.post(f"{self.url}/chat/completions", json=body) as response,
        ):
            if response.status != 200:
                raise RuntimeError(f"{self.url}: HTTP {response.status}: {await response.text()}")
            async for line in response.content:
                data = line.decode().strip().removeprefix("data: ")
                if data == "[DONE]":
                    return
                if data.startswith("{") and (choices := json.loads(data)["choices"]):
                    yield choices[0]["delta"]


def user_messages(messages: list[Any]) -> list[Message]:
    return [{"role": "user", "content": message["text"]} for message in messages]


def tool_result(call: Message, result: str) -> Message:
    return {"role": "tool", "tool_call_id": call["id"], "content": result}


def pending_calls(history: list[Message]) -> list[Message]:
    """Return the tool calls of the last reply that have no result. Results are stored in order."""
    for result_count, message in enumerate(reversed(history)):
        if message["role"] != "tool":
            return list(message.get("tool_calls", ()))[result_count:]
    return []


class Agent:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    async def chat(self, ctx: RunContext, text: str) -> str:
        """The job: execute one turn of a conversation and return the last reply."""
        saved = ctx.checkpoint or {"run_id": None, "history": []}
        history: list[Message] = saved["history"]
        if saved["run_id"] != ctx.run_id:  # A new turn, not a repeated execution.
            history += [tool_result(call, "cancelled") for call in pending_calls(history)]
            history += user_messages([{"text": text}])
        while True:  # Repeats only if a message was accepted while the loop was ending.
            async with ctx.listening():
                history = await self._run_steps(ctx, history)
            late_messages = [] if ctx.canceled else await ctx.messages()
            if not late_messages:
                return str(history[-1]["content"])
            history += user_messages(late_messages)

    async def _run_steps(self, ctx: RunContext, history: list[Message]) -> list[Message]:
        for _ in range(STEP_COUNT_MAX):
            for call in pending_calls(history):  # After a restart: those without a result.
                is_allowed = await self._ask_permission(ctx, call)
                if ctx.canceled:  # The cancel denied it, not a person: end the turn.
                    return history
                history.append(await self._run_tool(ctx, call, is_allowed=is_allowed))
                await ctx.save_checkpoint({"run_id": ctx.run_id, "history": history})
            history += user_messages(await ctx.messages())
            await ctx.save_checkpoint({"run_id": ctx.run_id, "history": history})
            if history[-1]["role"] == "assistant":
                return history
            if sum(len(str(message["content"])) for message in history) > COMPACT_AT_CHARS:
                history = await self._compact(ctx, history)
            history.append(await self._stream_reply(ctx, history))
            await ctx.save_checkpoint({"run_id": ctx.run_id, "history": history})
        raise RuntimeError(f"the turn did not end within {STEP_COUNT_MAX} steps")

    async def _stream_reply(self, ctx: RunContext, history: list[Message]) -> Message:
        """Stream a reply and emit its tokens. Tool calls also arrive in pieces and are joined."""
        content, calls = "", dict[int, Message]()
        async for delta in self.endpoint.deltas(history, tools=TOOLS):
            if text := delta.get("content"):
                content += text
                await ctx.emit("token", {"text": text})
            for piece in delta.get("tool_calls") or ():
                function = {"name": "", "arguments": ""}
                new_call = {"id": piece.get("id"), "type": "function", "function": function}
                call = calls.setdefault(piece["index"], new_call)
                for name, part in piece["function"].items():
                    call["function"][name] += part or ""
        reply: Message = {"role": "assistant", "content": content}
        return reply | {"tool_calls": list(calls.values())} if calls else reply

    async def _ask_permission(self, ctx: RunContext, call: Message) -> bool:
        """Ask a person. No answer within five minutes counts as a denial."""
        function = call["function"]
        question = {"tool": function["name"], "arguments": json.loads(function["arguments"])}
        answer = await ctx.interrupt(question, schema=PERMISSION, call_id=call["id"])
        return bool(answer and answer["approved"])

    async def _run_tool(self, ctx: RunContext, call: Message, *, is_allowed: bool) -> Message:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        result = f"{arguments.get('count', 1)} notes deleted" if is_allowed else "not allowed"
        await ctx.emit("tool", {"name": name, "result": result})
        return tool_result(call, result)

    async def _compact(self, ctx: RunContext, history: list[Message]) -> list[Message]:
        """Replace all but the last message by a summary. On a timeout, keep the history."""
        request = [*history, {"role": "system", "content": "Summarise the conversation."}]
        try:
            async with ctx.compacting(timeout_s=COMPACTION_TIMEOUT_S):
                deltas = [delta async for delta in self.endpoint.deltas(request)]
        except TimeoutError:
            await ctx.log("the compaction took too long", level="warning")
            return history
        summary = "".join(delta.get("content") or "" for delta in deltas)
        return [{"role": "system", "content": summary}, history[-1]]
