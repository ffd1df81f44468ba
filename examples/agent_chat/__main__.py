"""Run the scripted demonstration, or chat with a model if `--url` is set (see README.md)."""

import argparse
import asyncio
import json
import os
import sys
import tempfile

from examples.agent_chat.agent import Agent, Endpoint
from examples.agent_chat.scripted import Script, serve
from headway import Headway, RunHandle

CHAT = {"job": "chat", "key": "ann"}
EVENT_FORMATS = {
    "permission_request": "  [permission requested, {call_id}: {question}]",
    "permission_result": "  [{outcome} by {by}: {answer}]",
    "tool": "  [{name}: {result}]",
    "queued_message": "{by} adds: {message[text]}",
    "run_state_changed": "  [{to}]",
}


async def show(run: RunHandle) -> None:
    """Print the events of the run as they occur."""
    is_midline = False
    async for event in run.events():
        payload = json.loads(event.payload)
        if event.type == "token":
            print("" if is_midline else "agent: ", payload["text"], sep="", end="", flush=True)
            is_midline = True
        elif event.type in EVENT_FORMATS and payload.get("to") not in ("queued", "running"):
            print("\n" * is_midline + EVENT_FORMATS[event.type].format(**payload), flush=True)
            is_midline = False


async def wait_for_event(run: RunHandle, event_type: str) -> None:
    await anext((event async for event in run.events() if event.type == event_type), None)
    await asyncio.sleep(1)  # A person needs a moment to react.


async def answer(run: RunHandle, *, is_allowed: bool) -> None:
    await wait_for_event(run, "permission_request")
    (call_id,) = await run.interrupts()
    await run.answer(call_id, {"approved": is_allowed}, by="ann")


async def demonstrate(hw: Headway, script: Script) -> None:
    async def start_turn(heading: str, text: str) -> tuple[RunHandle, asyncio.Task[None]]:
        print(f"\n— {heading}\nann: {text}", flush=True)
        run = await hw.continue_(**CHAT, params={"text": text})
        return run, group.create_task(show(run))

    async with asyncio.TaskGroup() as group:
        run, display = await start_turn("a reply that streams", "good morning")
        await display
        run, display = await start_turn("a tool that needs permission", "delete my notes")
        await answer(run, is_allowed=True)
        await display
        run, display = await start_turn("a message in the middle of a turn", "delete, but wait")
        await script.paused.wait()
        await hw.active.queue_message("ann", {"text": "only the old ones"}, by="bob")
        script.resume.set()
        await answer(run, is_allowed=False)
        await display
        run, _ = await start_turn("a cancel", "count")
        await wait_for_event(run, "token")
        await run.cancel(by="ann")


async def chat(hw: Headway) -> None:
    """Read lines: each starts a turn, joins the active turn, or answers its question (y or n)."""
    stdin = asyncio.StreamReader()
    protocol, loop = asyncio.StreamReaderProtocol(stdin), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: protocol, sys.stdin)
    async with asyncio.TaskGroup() as group:
        while line := (await stdin.readline()).decode().strip():
            active = await hw.active.get("ann")
            interrupts = {} if active is None else await active.interrupts()
            if active is not None and interrupts and line in ("y", "n"):
                await active.answer(next(iter(interrupts)), {"approved": line == "y"}, by="you")
                continue
            run = await hw.continue_(**CHAT, params={"text": line}, on_conflict="steer", by="you")
            if active is None or run.id != active.id:  # Otherwise it is displayed already.
                group.create_task(show(run))
        await hw.active.abort("ann", by="you")


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.agent_chat")
    parser.add_argument(
        "--url", help="an OpenAI-compatible server, such as http://127.0.0.1:11434/v1"
    )
    parser.add_argument("--model", default="scripted")
    args = parser.parse_args()
    script, secret = Script(delta_delay_s=0.1), os.environ.get("OPENAI_API_KEY", "")
    with tempfile.TemporaryDirectory() as folder:
        async with serve(script) as url:
            hw = Headway(f"sqlite:///{folder}/chat.db")
            agent = Agent(Endpoint(args.url or url, model=args.model, secret=secret))
            hw.job(name="chat")(agent.chat)
            async with hw:
                await (chat(hw) if args.url else demonstrate(hw, script))


if __name__ == "__main__":
    asyncio.run(main())
