"""`python -m examples.agent_chat [--url … --model …]`: a demonstration, or a chat with a model."""

import argparse
import asyncio
import json
import os
import sys
import tempfile

from examples.agent_chat.agent import Agent, Endpoint
from examples.agent_chat.scripted import Script, served
from headway import Headway, RunHandle

TALK = {"job": "chat", "key": "ann"}
LINES = {
    "permission_request": "  [it asks {call_id}: {question}]",
    "permission_result": "  [{outcome} by {by}: {answer}]",
    "tool": "  [{name}: {result}]",
    "queued_message": "{by} adds: {message[text]}",
    "run_state_changed": "  [{to}]",
}


async def show(run: RunHandle) -> None:
    """Print what happens to the run, as it happens."""
    is_speaking = False
    async for event in run.events():
        said = json.loads(event.payload)
        if event.type == "token":
            print("" if is_speaking else "agent: ", said["text"], sep="", end="", flush=True)
            is_speaking = True
        elif event.type in LINES and said.get("to") not in ("queued", "running"):
            print("\n" * is_speaking + LINES[event.type].format(**said), flush=True)
            is_speaking = False


async def until(run: RunHandle, kind: str) -> None:
    await anext((event async for event in run.events() if event.type == kind), None)
    await asyncio.sleep(1)  # As a person, who takes a moment.


async def answer(run: RunHandle, *, is_allowed: bool) -> None:
    await until(run, "permission_request")
    (call_id,) = await run.interrupts()
    await run.answer(call_id, {"approved": is_allowed}, by="ann")


async def demonstrate(hw: Headway, script: Script) -> None:
    async def turn(heading: str, text: str) -> tuple[RunHandle, asyncio.Task[None]]:
        print(f"\n— {heading}\nann: {text}", flush=True)
        run = await hw.continue_(**TALK, params={"text": text})
        return run, group.create_task(show(run))

    async with asyncio.TaskGroup() as group:
        run, shown = await turn("an answer that streams", "good morning")
        await shown
        run, shown = await turn("a tool that waits for a yes", "delete my notes")
        await answer(run, is_allowed=True)
        await shown
        run, shown = await turn("a message in the middle of a turn", "delete, but wait")
        await script.waits.wait()
        await hw.active.queue_message("ann", {"text": "only the old ones"}, by="bob")
        script.may_go_on.set()
        await answer(run, is_allowed=False)
        await shown
        run, _ = await turn("a cancel", "count")
        await until(run, "token")
        await run.cancel(by="ann")


async def talk(hw: Headway) -> None:
    """A line is a turn, or goes into the one under way; `y` and `n` answer what it asks."""
    typed = asyncio.StreamReader()
    protocol, loop = asyncio.StreamReaderProtocol(typed), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: protocol, sys.stdin)
    async with asyncio.TaskGroup() as group:
        while line := (await typed.readline()).decode().strip():
            active = await hw.active.get("ann")
            questions = {} if active is None else await active.interrupts()
            if active is not None and questions and line in ("y", "n"):
                await active.answer(next(iter(questions)), {"approved": line == "y"}, by="you")
                continue
            run = await hw.continue_(**TALK, params={"text": line}, on_conflict="steer", by="you")
            if active is None or run.id != active.id:  # Else it is shown already.
                group.create_task(show(run))
        await hw.active.abort("ann", by="you")


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.agent_chat")
    parser.add_argument("--url", help="such as http://127.0.0.1:11434/v1")
    parser.add_argument("--model", default="scripted")
    wanted = parser.parse_args()
    script, secret = Script(word_s=0.1), os.environ.get("OPENAI_API_KEY", "")
    with tempfile.TemporaryDirectory() as folder:
        async with served(script) as url:
            hw = Headway(f"sqlite:///{folder}/chat.db")
            agent = Agent(Endpoint(wanted.url or url, model=wanted.model, secret=secret))
            hw.job(name="chat")(agent.chat)
            async with hw:
                await (talk(hw) if wanted.url else demonstrate(hw, script))


if __name__ == "__main__":
    asyncio.run(main())
