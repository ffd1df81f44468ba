"""Commands by which an execution reports progress, checkpoints, logs, events and its window."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, cast

from headway.core.batch_state import BatchState
from headway.core.command.protocol import HolderCommand
from headway.core.document import Document, check_name
from headway.core.errors import InvalidInput
from headway.core.event_payloads import CheckpointSaved, Logged, LogLine, Progressed
from headway.core.json_encoder import Json
from headway.core.run.events import JSON_LITERALS, TYPE_LENGTH_MAX, TYPE_PATTERN, EventType
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.window import Window

RESERVED_PREFIXES: Final = ("run_", "lane_", "key_", "permission_", "queued_")
RESERVED_TYPES: Final = frozenset({*EventType, "resync", "server_closing"})
"""Event types that jobs may not use, including types that only an event stream sends."""


@dataclass(frozen=True, slots=True)
class SaveProgress(HolderCommand[bool]):
    """Replace the run's progress.

    Consecutive changes in a batch become one event, with the last progress.
    """

    progress: Document

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return len(self.progress)

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        run = batch.update(run, {"progress": self.progress})
        events = batch.changes.events
        if events and events[-1].run_id == run.id and events[-1].type == EventType.PROGRESS:
            events[-1] = events[-1]._replace(payload=self.progress)
        else:
            batch.emit(run, Progressed(self.progress))
        return True


@dataclass(frozen=True, slots=True)
class SaveCheckpoint(HolderCommand[bool]):
    """Store the checkpoint from which a later execution continues.

    A checkpoint is progress: it resets `death_count` and `stop_count`.
    """

    checkpoint: Document

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return len(self.checkpoint)

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        batch.checkpoints[run.id] = self.checkpoint
        run = batch.update(run, {"checkpoint": self.checkpoint}, death_count=0, stop_count=0)
        batch.emit(run, CheckpointSaved())
        return True


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event that a job emits: log records, or an event of the job's own type."""

    type: str
    payload: Document

    def __post_init__(self) -> None:
        check_name(self.type, field="type", length_max=TYPE_LENGTH_MAX)
        if self.type == EventType.STATE_CHANGED:  # Only a transition writes it.
            raise InvalidInput("type", f"{self.type!r} is reserved for headway")

    def encode(self) -> str:
        return self.payload


def make_job_event(kind: str, payload: Document) -> JobEvent:
    """Return an event of the job's own type. Raise InvalidInput if headway reserves the type."""
    kind = check_name(kind, field="kind", length_max=TYPE_LENGTH_MAX)
    if not re.match(TYPE_PATTERN, kind):
        raise InvalidInput("kind", f"{kind!r} must be one word that begins with a letter")
    if kind in JSON_LITERALS:
        raise InvalidInput("kind", f"{kind!r} is a JSON literal; choose another name")
    if kind in RESERVED_TYPES or kind.startswith(RESERVED_PREFIXES):
        raise InvalidInput("kind", f"{kind!r} is reserved for headway; choose another name")
    return JobEvent(kind, payload)


def make_log_event(lines: Iterable[Document]) -> JobEvent:
    """Return log records as one event. Each record has at least `level` and `message`."""
    payload = Logged([cast("Json[LogLine]", line) for line in lines])
    return JobEvent(payload.type, Document(payload.encode()))


@dataclass(frozen=True, slots=True)
class AppendEvents(HolderCommand[bool]):
    """Append the events of a job in order, all of them or none."""

    events: tuple[JobEvent, ...]

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return sum([len(event.payload) for event in self.events])

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        for event in self.events:
            run = batch.emit(run, event)
        return True


@dataclass(frozen=True, slots=True)
class SetWindow(HolderCommand[bool]):
    """Set whether the run accepts messages now. A new claim starts with `Window.NONE`."""

    window: Window

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def decide_held(self, batch: BatchState, run: Run) -> bool:
        """Return False if the run is cancelling and `window` is not `Window.NONE`."""
        if self.window and run.status is not RunStatus.RUNNING:
            return False
        batch.update(run, window=int(self.window))
        return True
