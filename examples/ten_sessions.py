"""Ten chat sessions, three messages each: in order within a session, three at a time overall.

    $ python examples/ten_sessions.py

Every answer is printed when it is there, with how many were being worked on at that moment. At the
end the program says what it has seen.
"""

import asyncio
import tempfile
from collections import defaultdict
from pathlib import Path

from headway import Headway, RunContext

SESSIONS = ("ann", "bob", "cem", "dot", "eve", "fay", "gil", "hal", "ida", "jon")
MESSAGES = ("hello", "how are you?", "good bye")
LIMIT = 3

answered: dict[str, list[str]] = defaultdict(list)
at_work: set[str] = set()
crowds: list[int] = []


async def answer(ctx: RunContext, message: str) -> str:
    """Pretend to think. The key is the session: nobody else answers it meanwhile."""
    at_work.add(ctx.key)
    crowds.append(len(at_work))
    await asyncio.sleep(len(message) / 300)
    print(f"{ctx.key}: {message:14} ({len(at_work)} at work)")
    answered[ctx.key].append(message)
    at_work.remove(ctx.key)
    return message.upper()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        hw = Headway(f"sqlite:///{Path(folder, 'sessions.db')}")
        hw.job(concurrency=LIMIT)(answer)
        async with hw:
            runs = [
                await hw.start(
                    "answer", key=session, params={"message": message}, on_conflict="enqueue"
                )
                for message in MESSAGES
                for session in SESSIONS
            ]
            for run in runs:
                await run.result()
    in_order = sum(tuple(answered[session]) == MESSAGES for session in SESSIONS)
    print(f"{in_order} of {len(SESSIONS)} sessions were answered in order.")
    print(f"At most {max(crowds)} were at work at once.")


if __name__ == "__main__":
    asyncio.run(main())
