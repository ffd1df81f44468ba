"""The end of a child task is told to its parent, whoever has ended it."""

from headway.core.batch_state import BatchState
from headway.core.command.run.inbox import post
from headway.core.document import Document
from headway.core.flow.engine.records import CHILD_ENDED, FLOW_JOB, encode_json
from headway.core.ids import RunId
from headway.core.run.status import RunStatus


def notify_parent(world: BatchState, run_id: RunId) -> None:
    """If it is over: a task that waits for it looks at it.

    The parent's own looks, now and then, are the fallback.
    """
    run = world.run(run_id)
    if run is None or run.is_active or run.parent_id is None:
        return
    parent = world.run(run.parent_id)
    if parent is not None and parent.job == FLOW_JOB and parent.status is RunStatus.RUNNING:
        post(world, parent, kind=CHILD_ENDED, payload=Document(encode_json(run.id)), by="")
