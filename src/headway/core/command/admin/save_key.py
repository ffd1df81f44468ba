"""A key's saved row: job and parameters of its next run; locked while one is active (R1.7)."""

from dataclasses import dataclass

from headway.core.batch_state import BatchState, SavedKey
from headway.core.command.protocol import RevisionMismatch, RowsNeeded, trim_names
from headway.core.document import EMPTY_OBJECT, Document, check_text, encode_document
from headway.core.ids import Key, RunId
from headway.core.run.events import EventType


@dataclass(frozen=True, slots=True)
class Locked:
    active_run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveKey:
    key: Key
    job: str
    params: Document = EMPTY_OBJECT
    expected_revision: int | None = None
    by: str = ""

    def __post_init__(self) -> None:
        trim_names(self, "key", "job")
        check_text(self.by, field="by")

    def need(self, needs: RowsNeeded) -> None:
        needs.saved_keys[self.key] = None
        needs.head_keys[self.key] = None

    def decide(self, world: BatchState) -> SavedKey | Locked | RevisionMismatch:
        head = world.head_run(self.key)
        if head is not None:
            return Locked(head.id)
        saved = world.keys.get(self.key)
        revision = 0 if saved is None else saved.revision
        if self.expected_revision is not None and self.expected_revision != revision:
            return RevisionMismatch(revision)
        # Its event's number, so that no revision comes back after the row was deleted.
        saved = SavedKey(self.key, self.job, self.params, world.seq + 1, world.now)
        world.keys[self.key] = world.changes.keys[self.key] = saved
        _emit_changed(world, self.key, revision=saved.revision, by=self.by)
        return saved


@dataclass(frozen=True, slots=True)
class DeleteKey:
    key: Key
    by: str = ""

    def __post_init__(self) -> None:
        trim_names(self, "key")
        check_text(self.by, field="by")

    def need(self, needs: RowsNeeded) -> None:
        needs.saved_keys[self.key] = None
        needs.head_keys[self.key] = None

    def decide(self, world: BatchState) -> bool | Locked:
        head = world.head_run(self.key)
        if head is not None:
            return Locked(head.id)
        if world.keys.pop(self.key, None) is None:
            return False
        world.changes.keys[self.key] = None
        _emit_changed(world, self.key, revision=None, by=self.by)
        return True


def _emit_changed(world: BatchState, key: Key, *, revision: int | None, by: str) -> None:
    told = encode_document({"revision": revision, "by": by}, field="key")
    world.emit_global(EventType.KEY_CHANGED, told, key=key)
