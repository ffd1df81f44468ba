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


async def show(run: RunHandle) -> None:
    """Print what happens to the run, as it happens."""
    async for event in run.events():
        said = json.loads(event.payload)
        match event.type:
            case "token":
                print(said["text"], end="", flush=True)
            case "permission_request":
                print(f"\n[it asks {said['call_id']}: {said['question']}]", flush=True)
            case "permission_result":
                print(f"[{said['outcome']} by {said['by']}: {said['answer']}]", flush=True)
            case "queued_message":
                print(f"\n[{said['by']} adds: {said['message']['text']}]", flush=True)
            case "run_state_changed" if said["to"] not in ("queued", "running"):
                print(f"\n[{said['to']}]", flush=True)


async def until(run: RunHandle, kind: str) -> None:
    async for event in run.events():
        if event.type == kind:
            return


async def demonstrate(hw: Headway, script: Script) -> None:
    async with asyncio.TaskGroup() as group:
        print("— streaming")
        run = await hw.continue_(**TALK, params={"text": "good morning"})
        await show(run)
        print("— permission")
        run = await hw.continue_(**TALK, params={"text": "delete my notes"})
        shown = group.create_task(show(run))
        await until(run, "permission_request")
        (call_id,) = await run.questions()
        await run.answer(call_id, {"approved": True}, by="ann")
        await shown
        print("— a message in the middle")
        run = await hw.continue_(**TALK, params={"text": "delete, but wait"})
        shown = group.create_task(show(run))
        await script.waits.wait()
        await hw.continue_(
            **TALK, params={"text": "only the old ones"}, on_conflict="steer", by="bob"
        )
        script.may_go_on.set()
        await until(run, "permission_request")
        (call_id,) = await run.questions()
        await run.answer(call_id, {"approved": False}, by="ann")
        await shown
        print("— cancel")
        run = await hw.continue_(**TALK, params={"text": "count"})
        shown = group.create_task(show(run))
        await until(run, "token")
        await run.cancel(by="ann")
        await shown


async def talk(hw: Headway) -> None:
    """A line is a turn, or goes into the one under way; `y` and `n` answer what it asks."""
    async with asyncio.TaskGroup() as group:
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            active = await hw.active.get("ann")
            questions = {} if active is None else await active.questions()
            if active is not None and questions and line in ("y", "n"):
                await active.answer(next(iter(questions)), {"approved": line == "y"}, by="you")
            else:
                run = await hw.continue_(
                    **TALK, params={"text": line}, on_conflict="steer", by="you"
                )
                if active is None:
                    group.create_task(show(run))


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.agent_chat")
    parser.add_argument("--url", help="such as http://127.0.0.1:11434/v1")
    parser.add_argument("--model", default="scripted")
    wanted = parser.parse_args()
    script, secret = Script(word_s=0.02), os.environ.get("OPENAI_API_KEY", "")
    with tempfile.TemporaryDirectory() as folder:
        async with served(script) as url:
            hw = Headway(f"sqlite:///{folder}/chat.db")
            agent = Agent(Endpoint(wanted.url or url, model=wanted.model, secret=secret))
            hw.job(name="chat")(agent.chat)
            async with hw:
                await (talk(hw) if wanted.url else demonstrate(hw, script))


if __name__ == "__main__":
    asyncio.run(main())
