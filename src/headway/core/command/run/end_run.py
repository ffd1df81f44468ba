"""End a run with an error though its job did not fail: a limit, a lost executor, poison."""

from dataclasses import dataclass
from typing import Any

from headway.core.batch_state import BatchState
from headway.core.command.run.notify_parent import notify_parent
from headway.core.ids import Key, RunId
from headway.core.run.run import Run
from headway.core.run.transitions import Trigger


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ended by this command, and with this error."""

    run_id: RunId
    key: Key
    job: str
    error: str


def end_with_error(
    world: BatchState, run: Run, trigger: Trigger, error: str, *, details: str = "", **changes: Any
) -> Ended | None:
    """Move the run to its end and notify its parent. Return None if it may not move so.

    `error` is a JSON document; `details` are further members of the event, encoded as JSON.
    """
    moved = world.move(
        run, trigger, details=f'{details},"error":{error}', documents={"error": error}, **changes
    )
    notify_parent(world, run.id)
    return None if moved is None else Ended(run.id, run.key, run.job, error)
