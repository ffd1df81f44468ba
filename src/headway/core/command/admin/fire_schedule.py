"""Fire: decide the slots of a schedule that are due, each once.

Any instance may ask at any time. The row of the schedule says up to where its slots are decided,
and the database's clock says which are due: what is decided is written with the run that came of
it, so that whoever asks next finds the slot gone.
"""

from dataclasses import dataclass
from typing import Any

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.submit import Submit, SubmitResult
from headway.core.document import encode_document
from headway.core.ids import Instant, RunId
from headway.core.run.events import EventType
from headway.core.schedule import SavedSchedule, Schedule


@dataclass(frozen=True, slots=True)
class ScheduleReset:
    """The schedule is new, or other than it was: its slots count from this instant."""

    effective_since: Instant


@dataclass(frozen=True, slots=True)
class NotDue:
    next_fire_at: Instant
    now: Instant
    """The database's."""


@dataclass(frozen=True, slots=True)
class FireDropped:
    """Slots were missed, up to this one; no run came of them."""

    fire_at: Instant


@dataclass(frozen=True, slots=True)
class Fired:
    fire_at: Instant
    submit_result: SubmitResult
    """A refusal is on record: a run that is `rejected`."""


FireResult = ScheduleReset | NotDue | FireDropped | Fired


def reset_schedule(
    schedule: Schedule, before: SavedSchedule | None, *, since: Instant
) -> SavedSchedule:
    """The row of a schedule whose slots count from `from_at`; what is paused stays so."""
    revision, is_paused = (0, 0) if before is None else (before.revision, before.is_paused)
    return SavedSchedule(
        schedule.name, schedule.expression, schedule.time_zone, since, revision + 1, is_paused
    )


@dataclass(frozen=True, slots=True)
class FireSchedule:
    schedule: Schedule
    run_id: RunId
    """Of the run, should there be one."""

    def need(self, needs: RowsNeeded) -> None:
        needs.schedules[self.schedule.name] = None
        self._submission().need(needs)

    def decide(self, world: BatchState) -> FireResult:
        schedule = self.schedule
        saved = world.schedules.get(schedule.name)
        if saved is None:
            return self._reset(world, None, since=world.now)
        if (saved.expression, saved.time_zone) != (schedule.expression, schedule.time_zone):
            # Not before what is decided, or a clock that went back would fire a slot again.
            from_at = max(world.now, saved.last_fire_at)
            return self._reset(world, saved, since=from_at)
        if saved.is_paused:
            # Slots pass by undecided; whoever asks is to look again at each, for it may be resumed.
            return NotDue(
                schedule.next_fire_at(after=max(world.now, saved.last_fire_at)), world.now
            )
        due = schedule.find_due(after=saved.last_fire_at, now=world.now)
        if due is None:
            return NotDue(schedule.next_fire_at(after=saved.last_fire_at), world.now)
        decided = saved._replace(last_fire_at=due.fire_at, revision=saved.revision + 1)
        world.schedules[schedule.name] = world.changes.schedules[schedule.name] = decided
        if due.is_dropped:
            self._emit(world, EventType.SCHEDULE_DROPPED, fire_at=due.fire_at)
            return FireDropped(due.fire_at)
        self._emit(world, EventType.SCHEDULE_FIRED, fire_at=due.fire_at, run_id=str(self.run_id))
        return Fired(due.fire_at, self._submission().decide(world))

    def _reset(
        self, world: BatchState, before: SavedSchedule | None, *, since: Instant
    ) -> ScheduleReset:
        saved = reset_schedule(self.schedule, before, since=since)
        world.schedules[saved.name] = world.changes.schedules[saved.name] = saved
        expression, time_zone = saved.expression, saved.time_zone
        self._emit(world, EventType.SCHEDULE_CHANGED, expression=expression, time_zone=time_zone)
        return ScheduleReset(since)

    def _emit(self, world: BatchState, kind: EventType, **facts: str | int) -> None:
        payload = {"name": self.schedule.name, **facts}
        world.emit_global(kind, encode_document(payload, field="schedule"))

    def _submission(self) -> Submit:
        return make_submission(self.schedule, self.run_id, is_unattended=True)


def make_submission(schedule: Schedule, run_id: RunId, **more: Any) -> Submit:
    """What the schedule starts, at a slot or when somebody says so."""
    return Submit(
        run_id=run_id,
        key=schedule.key,
        job=schedule.job,
        params=schedule.params,
        lane=schedule.lane,
        timeout_s=schedule.timeout_s,
        queue_timeout_s=schedule.queue_timeout_s,
        recovery=schedule.recovery,
        **more,
    )
