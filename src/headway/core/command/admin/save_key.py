"""A key's saved row: job and params of its next run. Locked while a run is active (R1.7)."""

from dataclasses import dataclass
from typing import ClassVar

from headway.core.batch_state import BatchState, SavedKey
from headway.core.command.protocol import RevisionMismatch, RowsNeeded
from headway.core.document import EMPTY_OBJECT, Document, check_text, trim_names
from headway.core.event_payloads import KeyChanged
from headway.core.ids import Key, RunId


@dataclass(frozen=True, slots=True)
class Locked:
    """The saved row cannot change, because its key has an active run."""

    active_run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveKey:
    """Create or replace the saved row of a key."""

    key: Key
    job: str
    params: Document = EMPTY_OBJECT
    expected_revision: int | None = None
    by: str = ""

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        trim_names(self, "key", "job")
        check_text(self.by, field="by")

    def document_length(self) -> int:
        return len(self.params)

    def need(self, rows: RowsNeeded) -> None:
        rows.saved_keys[self.key] = None
        rows.head_keys[self.key] = None

    def decide(self, batch: BatchState) -> SavedKey | Locked | RevisionMismatch:
        head = batch.head_run(self.key)
        if head is not None:
            return Locked(head.id)
        saved = batch.keys.get(self.key)
        revision = 0 if saved is None else saved.revision
        if self.expected_revision is not None and self.expected_revision != revision:
            return RevisionMismatch(revision)
        # The revision is the event's `seq`, so that a row made after a deletion has a new one.
        saved = SavedKey(self.key, self.job, self.params, batch.seq + 1, batch.now)
        batch.keys[self.key] = batch.changes.keys[self.key] = saved
        _emit_changed(batch, self.key, revision=saved.revision, by=self.by)
        return saved


@dataclass(frozen=True, slots=True)
class DeleteKey:
    """Delete the saved row of a key. The result is False if there is none."""

    key: Key
    by: str = ""

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        trim_names(self, "key")
        check_text(self.by, field="by")

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.saved_keys[self.key] = None
        rows.head_keys[self.key] = None

    def decide(self, batch: BatchState) -> bool | Locked:
        head = batch.head_run(self.key)
        if head is not None:
            return Locked(head.id)
        if batch.keys.pop(self.key, None) is None:
            return False
        batch.changes.keys[self.key] = None
        _emit_changed(batch, self.key, revision=None, by=self.by)
        return True


def _emit_changed(batch: BatchState, key: Key, *, revision: int | None, by: str) -> None:
    batch.emit_global(KeyChanged(revision, by), key=key)
