"""Ten chat sessions with three messages each: in order per session, three at a time overall.

    $ python examples/ten_sessions.py

The program prints each answer as it finishes, with the number of sessions that are active at that
moment. The last two lines summarize the order and the highest concurrency.
"""

import asyncio
import tempfile
from collections import defaultdict
from pathlib import Path

from headway import Headway, RunContext

SESSIONS = ("ann", "bob", "cem", "dot", "eve", "fay", "gil", "hal", "ida", "jon")
MESSAGES = ("hello", "how are you?", "good bye")
CONCURRENCY = 3

answered: dict[str, list[str]] = defaultdict(list)
active_sessions: set[str] = set()
active_counts: list[int] = []


async def answer(ctx: RunContext, message: str) -> str:
    """Answer one message. The session is the key, so its messages are answered one at a time."""
    active_sessions.add(ctx.key)
    active_counts.append(len(active_sessions))
    await asyncio.sleep(len(message) / 300)  # Stands for the work of a model.
    print(f"{ctx.key}: {message:14} ({len(active_sessions)} active)")
    answered[ctx.key].append(message)
    active_sessions.remove(ctx.key)
    return message.upper()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        hw = Headway(f"sqlite:///{Path(folder, 'sessions.db')}")
        hw.job(concurrency=CONCURRENCY)(answer)
        async with hw:
            runs = [
                # `enqueue` puts the run behind the active run of the same session.
                await hw.start(
                    "answer", key=session, params={"message": message}, on_conflict="enqueue"
                )
                for message in MESSAGES
                for session in SESSIONS
            ]
            for run in runs:
                await run.result()
    ordered_count = sum(tuple(answered[session]) == MESSAGES for session in SESSIONS)
    print(f"{ordered_count} of {len(SESSIONS)} sessions were answered in order.")
    print(f"At most {max(active_counts)} sessions were active at once.")


if __name__ == "__main__":
    asyncio.run(main())
