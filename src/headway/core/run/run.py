"""The state of a run, as decisions read it.

`Run` is a NamedTuple, because a batch of a thousand commands makes thousands of them. Making one
from a row takes a third of a microsecond. A frozen dataclass of this width takes thirteen times as
long.
"""

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple

from headway.core.ids import Flag, InstanceId, Instant, Key, LaneName, RunId
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

NO_TOKEN: Final = ""
DEATH_COUNT_MAX: Final = 3
STOP_COUNT_MAX: Final = 20
"""The `stop_count` at which a run is poison.

`stop_count` counts the executions without progress that graceful stops have ended.
"""


class RunMode(StrEnum):
    START = "start"
    CONTINUE = "continue"


class Recovery(StrEnum):
    RESUME = "resume"
    FAIL = "fail"


class QueueRank(IntEnum):
    """The priority of a run in the queue of its lane. Within a rank, `ready_seq` decides."""

    RESUMED = 0
    """The run has started before and needs a slot again."""
    READY = 1
    """The run is the head of its key and never started."""
    BEHIND = 2
    """The run waits behind another run of its key, and cannot be claimed."""


class FilesOnCancel(StrEnum):
    KEEP = "keep"
    DELETE = "delete"


class OnExistingOutput(StrEnum):
    """How a run with mode `start` treats the existing output of its key."""

    ASK = "ask"
    """Refuse the run until the caller chooses one of the other values."""
    REPLACE = "replace"
    """Keep the files; new files with the same name overwrite them."""
    ARCHIVE = "archive"
    """Pack the files into an archive, and then remove them."""
    DELETE = "delete"


class Run(NamedTuple):
    seq: int
    """The `seq` of the event that accepted the run. It orders the runs of a key."""
    id: RunId
    key: Key
    lane: LaneName
    job: str
    mode: RunMode
    recovery: Recovery
    status: RunStatus
    head_key: Key | None
    """The run's key while the run is its head, else None. Unique, so a key has one head."""
    waiting_key: Key | None
    """The run's key while the run waits behind the key's head, else None."""
    queue_rank: int | None
    ready_seq: int | None
    slot: LaneName | None
    """The run's lane while the run holds one of the lane's slots, else None."""
    instance_id: InstanceId | None
    """The instance with the current claim. None if queued, parked, orphaned or ended."""
    generation: int
    """How many claims this run has had."""
    token: str
    """The token of the current claim, or NO_TOKEN."""
    attempt: int
    """1 for the first attempt, and one more for each retry."""
    death_count: int
    """The number of executors lost since the last checkpoint or step."""
    window: int
    """The `Window` of the run, as a number."""
    unread_count: int
    queued_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    queue_deadline_at: Instant | None
    timeout_us: int | None
    """The execution time left, in microseconds. Valid while `run_deadline_at` is None."""
    run_deadline_at: Instant | None
    wake_at: Instant | None
    cancel_deadline_at: Instant | None
    due_at: Instant | None
    """The earliest deadline of the run, so that the sweep needs one index for all deadlines."""
    run_seq: int
    revision: int
    continued_from: RunId | None
    parent_id: RunId | None
    child_of: RunId | None = None
    """The parent while this run is active. An index on this column finds the children to end."""
    is_parent: Flag = 0
    """1 if the run has started children, which must end with it."""
    children_ending_since: Instant | None = None
    """When this run ended or began cancelling. None unless it has children left to end."""
    on_existing_output: str | None = None
    """An `OnExistingOutput` to apply before the job starts. None if nothing is left to do."""
    delete_files_on_cancel: int | None = None
    """1 if the run's files and its checkpoint are deleted when it is canceled."""
    traceparent: str | None = None
    """The trace in which the run was submitted, as a W3C `traceparent`."""
    stop_count: int = 0
    """The number of executions that graceful stops ended since the last progress."""
    updated_at: Instant | None = None
    """When the row was last written."""

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Run":
        """Return the run with these column values, which are in the order of the fields."""
        values = list(row)
        values[_MODE] = _MODES[values[_MODE]]
        values[_RECOVERY] = _RECOVERIES[values[_RECOVERY]]
        values[_STATUS] = _STATUSES[values[_STATUS]]
        return cls._make(values)

    @property
    def is_active(self) -> bool:
        return self.status not in TERMINAL

    @property
    def is_parked(self) -> bool:
        """True if the run is running, but no process holds it and it is not in the queue."""
        return (
            self.status is RunStatus.RUNNING and self.token == NO_TOKEN and self.queue_rank is None
        )

    def check(self) -> None:
        """Assert the conditions that every run always meets. A failure is a bug in headway."""
        ended = self.status in TERMINAL
        assert (self.ended_at is not None) == ended, self
        assert not (ended and (self.head_key or self.waiting_key or self.slot or self.token)), self
        assert self.slot is None or self.head_key is not None, self
        assert (self.instance_id is None) == (self.token == NO_TOKEN), self
        assert (self.queue_rank == QueueRank.BEHIND) == (self.waiting_key is not None), self
        assert (self.ready_seq is None) == (self.queue_rank not in (0, 1)), self
        assert self.child_of == (None if ended else self.parent_id), self
        must_end = self.is_parent and self.status not in (RunStatus.QUEUED, RunStatus.RUNNING)
        assert (self.children_ending_since is not None) == bool(must_end), self


# The indexes of the enumeration fields in a row.
_MODE: Final = Run._fields.index("mode")
_RECOVERY: Final = Run._fields.index("recovery")
_STATUS: Final = Run._fields.index("status")
# Dict lookups, because calling an Enum takes as long as the rest of the row.
_MODES: Final = {mode.value: mode for mode in RunMode}
_RECOVERIES: Final = {recovery.value: recovery for recovery in Recovery}
_STATUSES: Final = {status.value: status for status in RunStatus}


class Claim(NamedTuple):
    """An executor's proof that it holds a run. Every write of an executor includes one (I2)."""

    run_id: RunId
    token: str


class RunRecord(NamedTuple):
    """A run with its documents, as readers return it. The documents are JSON text."""

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
"""The fields of a RunRecord that are JSON documents. Lists and mirrors omit the traceback."""
