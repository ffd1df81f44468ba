"""What an execution reports while it runs: progress, checkpoints, log lines, its window."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.document import Document, check_name
from headway.core.errors import InvalidInput
from headway.core.run.events import JSON_LITERALS, TYPE_LENGTH_MAX, TYPE_PATTERN, EventType
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.core.run.window import Window

RESERVED_PREFIXES: Final = ("run_", "lane_", "key_", "permission_", "queued_")
RESERVED_TYPES: Final = frozenset({*EventType, "resync", "server_closing"})
"""What a stream says for itself, too."""


@dataclass(frozen=True, slots=True)
class SaveProgress:
    """Replace the run's progress. Several in one batch become one event: the last one counts."""

    claim: Claim
    progress: Document

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)

    def decide(self, world: BatchState) -> bool:
        run = world.held_run(self.claim)
        if run is None:
            return False
        run = world.update(run, {"progress": self.progress})
        events = world.changes.events
        if events and events[-1].run_id == run.id and events[-1].type == EventType.PROGRESS:
            events[-1] = events[-1]._replace(payload=self.progress)
        else:
            world.emit(run, EventType.PROGRESS, self.progress)
        return True


@dataclass(frozen=True, slots=True)
class SaveCheckpoint:
    """Store the checkpoint from which a later execution continues. This resets both counts."""

    claim: Claim
    checkpoint: Document

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)

    def decide(self, world: BatchState) -> bool:
        run = world.held_run(self.claim)
        if run is None:
            return False
        world.checkpoints[run.id] = self.checkpoint
        run = world.update(run, {"checkpoint": self.checkpoint}, death_count=0, stop_count=0)
        world.emit(run, EventType.CHECKPOINT, "{}")
        return True


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Log lines, or an event of the job's own making."""

    type: str
    payload: Document

    def __post_init__(self) -> None:
        check_name(self.type, field="type", length_max=TYPE_LENGTH_MAX)
        if self.type == EventType.STATE_CHANGED:  # It comes with a change of state, and only so.
            raise InvalidInput("type", f"{self.type!r} is not for jobs to say")


def make_job_event(kind: str, payload: Document) -> JobEvent:
    """An event of a job's own making, which nobody can take for one of headway's."""
    kind = check_name(kind, field="kind", length_max=TYPE_LENGTH_MAX)
    if not re.match(TYPE_PATTERN, kind):
        raise InvalidInput("kind", f"{kind!r} must be one word that begins with a letter")
    if kind in JSON_LITERALS:
        raise InvalidInput("kind", f"{kind!r} means something else; choose another word")
    if kind in RESERVED_TYPES or kind.startswith(RESERVED_PREFIXES):
        raise InvalidInput("kind", f"{kind!r} is one of headway's own; choose another word")
    return JobEvent(kind, payload)


def make_log_event(lines: Iterable[Document]) -> JobEvent:
    """Lines of a log as one event; each is an object with at least `level` and `message`."""
    return JobEvent(EventType.LOG, Document(f'{{"lines":[{",".join(lines)}]}}'))


@dataclass(frozen=True, slots=True)
class AppendEvents:
    """What a job has said, in order: an event each, all of them or none."""

    claim: Claim
    events: tuple[JobEvent, ...]

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)

    def decide(self, world: BatchState) -> bool:
        run = world.held_run(self.claim)
        if run is None:
            return False
        for one in self.events:
            run = world.emit(run, one.type, one.payload)
        return True


@dataclass(frozen=True, slots=True)
class SetWindow:
    """Say whether the run takes messages now; a claim begins without a word about it."""

    claim: Claim
    window: Window

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)

    def decide(self, world: BatchState) -> bool:
        run = world.held_run(self.claim)
        if run is None or (self.window and run.status is not RunStatus.RUNNING):
            return False
        world.update(run, window=int(self.window))
        return True
