"""Pause a schedule, or resume it. Slots in between were not missed: nobody wanted them."""

from dataclasses import dataclass

from headway.core.batch_state import BatchState
from headway.core.command.admin.fire_schedule import reset_schedule
from headway.core.command.protocol import RevisionMismatch, RowsNeeded
from headway.core.document import check_text, encode_document
from headway.core.run.events import EventType
from headway.core.schedule import SavedSchedule, Schedule


@dataclass(frozen=True, slots=True)
class PauseSchedule:
    schedule: Schedule
    is_paused: bool
    """False: its slots count again, from this instant."""
    by: str = ""
    expected_revision: int | None = None

    def __post_init__(self) -> None:
        check_text(self.by, field="by")

    def need(self, needs: RowsNeeded) -> None:
        needs.schedules[self.schedule.name] = None

    def decide(self, world: BatchState) -> SavedSchedule | RevisionMismatch:
        """The row as it is then. One that is as wanted is left alone."""
        name = self.schedule.name
        saved = world.schedules.get(name)
        revision = 0 if saved is None else saved.revision
        if self.expected_revision not in (None, revision):
            return RevisionMismatch(revision)
        if saved is not None and saved.is_paused == self.is_paused:
            return saved
        # Never before what is decided, or a clock that went back would fire a slot again.
        from_at = world.now if saved is None else max(world.now, saved.last_fire_at)
        begun = reset_schedule(self.schedule, saved, since=from_at)
        changed = begun._replace(is_paused=int(self.is_paused))
        world.schedules[name] = world.changes.schedules[name] = changed
        kind = EventType.SCHEDULE_PAUSED if self.is_paused else EventType.SCHEDULE_RESUMED
        world.emit_global(kind, encode_document({"name": name, "by": self.by}, field="schedule"))
        return changed
