"""Cancel all descendants of runs that have ended or are being canceled.

The transition that ends or cancels the parent records that its children must end, so every sweep
finds them. Ending the children at once only reduces the delay. Each command checks its conditions
again, on locked rows.
"""

import asyncio
import json
from contextlib import suppress
from typing import Final

from headway.core.command.run.cancel import CancelResult
from headway.core.command.run.child import CancelChild, ConfirmChildrenEnded
from headway.core.errors import InfrastructureError
from headway.core.ids import RunId
from headway.core.run.run import FilesOnCancel
from headway.ports.run_reader import RunReader
from headway.ports.store import Store

CHILD_BATCH_SIZE: Final = 100
"""How many children are canceled in one transaction."""
STEP_COUNT_MAX: Final = 100
"""The maximum number of steps of one `end_children` call, each with at most one batch.

The next sweep processes the remaining children.
"""
_CANCEL_ACCEPTED: Final = (CancelResult.CANCELED, CancelResult.REQUESTED)


async def end_children_after_cancel(
    store: Store, runs: RunReader, run_id: RunId, answer: CancelResult
) -> None:
    """Cancel a run's children at once if `answer` shows that the run's cancel was accepted.

    An outage is ignored: the cancel is already committed, and the sweep also ends the children.
    """
    if answer in _CANCEL_ACCEPTED:
        with suppress(InfrastructureError):
            await end_children(store, runs, run_id)


async def end_children(store: Store, runs: RunReader, parent_id: RunId) -> None:
    """Cancel all descendants of run `parent_id`, if that run is ending or has ended."""
    waiting = [parent_id]
    for _ in range(STEP_COUNT_MAX):
        if not waiting:
            return
        # Read the parent before its children: a parent that is ending starts no more children.
        parent = await runs.run(waiting[-1])
        if parent is None or parent.run.children_ending_since is None:
            waiting.pop()
            continue
        children = await runs.children_to_cancel(parent.run.id, limit=CHILD_BATCH_SIZE)
        if not children:
            await store.apply(ConfirmChildrenEnded(waiting.pop()))
            continue
        intent = {} if parent.cancel is None else json.loads(parent.cancel)
        files, by = FilesOnCancel(intent.get("files", FilesOnCancel.KEEP)), intent.get("by", "")
        answers = await asyncio.gather(
            *(
                store.apply(CancelChild(run_id=child, parent_id=parent.run.id, files=files, by=by))
                for child in children
            )
        )
        results = zip(children, answers, strict=True)
        waiting += [child for child, answer in results if answer in _CANCEL_ACCEPTED]
