"""End the children of runs that are over, or were asked to end, and the children of those.

That they must end is written with the parent's own move, so it is found by whoever sweeps; to do
it at once only makes it fast. Each command looks again, on locked rows.
"""

import asyncio
import json
from contextlib import suppress
from typing import Final

from headway.core.command.run.cancel import CancelAnswer
from headway.core.command.run.child import CancelChild, ForgetChildren
from headway.core.errors import InfrastructureError
from headway.core.ids import RunId
from headway.core.run.run import Files
from headway.ports.run_reader import RunReader
from headway.ports.store import Store

CHILD_COUNT: Final = 100
"""How many are asked to end in one transaction."""
STEP_COUNT_MAX: Final = 100
"""What is left over after so many waits for the next sweep."""
_ENDING: Final = (CancelAnswer.CANCELED, CancelAnswer.REQUESTED)


async def end_children_of_cancelled(
    store: Store, runs: RunReader, run_id: RunId, answer: CancelAnswer
) -> None:
    """End the children of a run at once, if `answer` says that its cancel was accepted.

    A failure is not reported, because the answer stays right and the sweep also ends the children.
    """
    if answer in _ENDING:
        with suppress(InfrastructureError):
            await end_children(store, runs, run_id)


async def end_children(store: Store, runs: RunReader, parent_id: RunId) -> None:
    """Ask for the end of all that `parent_id` has started; nothing if it goes on itself."""
    waiting = [parent_id]
    for _ in range(STEP_COUNT_MAX):
        if not waiting:
            return
        # Read before the children are: what has ended then starts no more of them.
        parent = await runs.run(waiting[-1])
        if parent is None or parent.run.children_by is None:
            waiting.pop()
            continue
        children = await runs.children_to_end(parent.run.id, limit=CHILD_COUNT)
        if not children:
            await store.apply(ForgetChildren(waiting.pop()))
            continue
        intent = {} if parent.cancel is None else json.loads(parent.cancel)
        files, by = Files(intent.get("files", Files.KEEP)), intent.get("by", "")
        answers = await asyncio.gather(
            *(
                store.apply(CancelChild(run_id=child, parent_id=parent.run.id, files=files, by=by))
                for child in children
            )
        )
        told = zip(children, answers, strict=True)
        waiting += [child for child, answer in told if answer in _ENDING]
