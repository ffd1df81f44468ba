"""A run's state, as decisions see it.

A NamedTuple, because a batch of a thousand commands makes thousands of them: one is made of a row
in a third of a microsecond, a frozen dataclass of this width takes thirteen times as long.
"""

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple

from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

NO_TOKEN: Final = ""
DEATH_COUNT_MAX: Final = 3
STOP_COUNT_MAX: Final = 20
"""How many executions without progress graceful stops may end before the run is poison."""


class RunMode(StrEnum):
    START = "start"
    CONTINUE = "continue"


class Recovery(StrEnum):
    RESUME = "resume"
    FAIL = "fail"


class QueueRank(IntEnum):
    """Where a run stands in the queue of its lane; within a rank, `ready_seq` decides."""

    RESUMED = 0
    """It ran already and wants a slot again."""
    READY = 1
    """The first of its key, never started."""
    BEHIND = 2
    """Another run of its key goes first: it cannot be claimed."""


class FilesOnCancel(StrEnum):
    KEEP = "keep"
    DELETE = "delete"


class OnExistingOutput(StrEnum):
    """What becomes of the output that a key has already, when a run starts afresh."""

    ASK = "ask"
    """The run is refused until its submitter has chosen."""
    REPLACE = "replace"
    """It stays, and is overwritten by name."""
    ARCHIVE = "archive"
    """It is packed, and then removed."""
    DELETE = "delete"


class Run(NamedTuple):
    seq: int
    """Of the event that accepted it: its place among the runs of its key."""
    id: RunId
    key: Key
    lane: LaneName
    job: str
    mode: RunMode
    recovery: Recovery
    status: RunStatus
    head_key: Key | None
    """The key while this run is the head of its key. Unique: one head per key."""
    waiting_key: Key | None
    """The key while this run waits behind the head."""
    queue_rank: int | None
    ready_seq: int | None
    slot: LaneName | None
    """The lane while this run holds one of its slots."""
    instance_id: InstanceId | None
    """Who holds the claim in force; None when nobody does (queued, parked, orphaned, ended)."""
    generation: int
    """How many claims this run has had."""
    token: str
    """The claim in force, or NO_TOKEN."""
    attempt: int
    """1, and one more for each retry."""
    death_count: int
    """Executors lost since the last checkpoint or step."""
    window: int
    """Its `Window`."""
    unread_count: int
    queued_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    queue_deadline_at: Instant | None
    timeout_us: int | None
    """How much execution time is left to it; counted down only while `run_deadline_at` is None."""
    run_deadline_at: Instant | None
    wake_at: Instant | None
    cancel_deadline_at: Instant | None
    due_at: Instant | None
    """The next deadline that the sweep must look at: one index serves all of them."""
    run_seq: int
    revision: int
    continued_from: RunId | None
    parent_id: RunId | None
    child_of: RunId | None = None
    """Its parent while this run is active: whoever looks for what must end with it finds it so."""
    is_parent: int = 0
    """It has started children, and what is active of them must end with it."""
    children_ending_since: Instant | None = None
    """Since when its children must end: it is over, or asked to end, and is a parent still."""
    on_existing_output: str | None = None
    """What is to be done with the key's output before the job begins; None: nothing, or no more."""
    delete_files_on_cancel: int | None = None
    """1: once it is canceled, the files that it has made go, and its checkpoint with them."""
    traceparent: str | None = None
    """The trace in which it was submitted, as W3C Trace Context writes it."""
    stop_count: int = 0
    """The executions without progress that graceful stops have ended since the last progress."""
    updated_at: Instant | None = None
    """When the row was last written."""

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Run":
        """A run from the values of its columns, in the order of the fields."""
        mode, recovery, status = row[5:8]
        known = (_MODES[mode], _RECOVERIES[recovery], _STATUSES[status])
        return cls._make((*row[:5], *known, *row[8:]))

    @property
    def is_active(self) -> bool:
        return self.status not in TERMINAL

    @property
    def is_parked(self) -> bool:
        """Running, but held by nobody and not in the queue either."""
        return (
            self.status is RunStatus.RUNNING and self.token == NO_TOKEN and self.queue_rank is None
        )

    def check(self) -> None:
        """What must hold of any run, at any time. An assertion here is our own mistake."""
        ended = self.status in TERMINAL
        assert (self.ended_at is not None) == ended, self
        assert not (ended and (self.head_key or self.waiting_key or self.slot or self.token)), self
        assert self.slot is None or self.head_key is not None, self
        assert (self.instance_id is None) == (self.token == NO_TOKEN), self
        assert (self.queue_rank == QueueRank.BEHIND) == (self.waiting_key is not None), self
        assert (self.ready_seq is None) == (self.queue_rank not in (0, 1)), self
        assert self.child_of == (None if ended else self.parent_id), self
        has_ceased = self.is_parent and self.status not in (RunStatus.QUEUED, RunStatus.RUNNING)
        assert (self.children_ending_since is not None) == bool(has_ceased), self


# Looked up, not called: an enumeration's call costs as much as the rest of the row.
_MODES: Final = {mode.value: mode for mode in RunMode}
_RECOVERIES: Final = {recovery.value: recovery for recovery in Recovery}
_STATUSES: Final = {status.value: status for status in RunStatus}


class Claim(NamedTuple):
    """What an executor shows with everything it writes (I2)."""

    run_id: RunId
    token: str


class RunRecord(NamedTuple):
    """A run with its documents, as readers give it. The documents are JSON text."""

    run: Run
    params: str
    progress: str | None = None
    checkpoint: str | None = None
    result: str | None = None
    error: str | None = None
    cancel: str | None = None
    traceback: str | None = None
    """The traceback of the last failed attempt, as plain text."""


RUN_DOCUMENTS: Final = tuple(name for name in RunRecord._fields if name not in ("run", "traceback"))
"""The fields of a record that are JSON documents. Lists and mirrors have only these."""
