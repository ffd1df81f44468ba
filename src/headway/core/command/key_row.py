"""A key's saved row: job and parameters of its next run; locked while one is active (R1.7)."""

from dataclasses import dataclass

from headway.core.command.command import Needs, trim_names
from headway.core.command.lane import Changed
from headway.core.document import EMPTY_OBJECT, Document
from headway.core.ids import Key, RunId
from headway.core.run.events import EventType
from headway.core.world import SavedKey, World


@dataclass(frozen=True, slots=True)
class Locked:
    active_run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveKey:
    key: Key
    job: str
    params: Document = EMPTY_OBJECT
    expected_revision: int | None = None

    def __post_init__(self) -> None:
        trim_names(self, "key", "job")

    def need(self, needs: Needs) -> None:
        needs.saved_keys[self.key] = None
        needs.head_keys[self.key] = None

    def decide(self, world: World) -> SavedKey | Locked | Changed:
        head = world.head_of(self.key)
        if head is not None:
            return Locked(head.id)
        saved = world.keys.get(self.key)
        revision = 0 if saved is None else saved.revision
        if self.expected_revision is not None and self.expected_revision != revision:
            return Changed(revision)
        # Its event's number, so that no revision comes back after the row was deleted.
        saved = SavedKey(self.key, self.job, self.params, world.seq + 1, world.now)
        world.keys[self.key] = world.changes.keys[self.key] = saved
        world.announce(EventType.KEY_CHANGED, f'{{"revision":{saved.revision}}}', key=self.key)
        return saved


@dataclass(frozen=True, slots=True)
class DeleteKey:
    key: Key

    def __post_init__(self) -> None:
        trim_names(self, "key")

    def need(self, needs: Needs) -> None:
        needs.saved_keys[self.key] = None
        needs.head_keys[self.key] = None

    def decide(self, world: World) -> bool | Locked:
        head = world.head_of(self.key)
        if head is not None:
            return Locked(head.id)
        if world.keys.pop(self.key, None) is None:
            return False
        world.changes.keys[self.key] = None
        world.announce(EventType.KEY_CHANGED, '{"revision":null}', key=self.key)
        return True
