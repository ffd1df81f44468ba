"""Fire: decide the slots of a schedule that are due, each once.

Any instance may ask at any time. The row of the schedule says up to where its slots are decided,
and the database's clock says which are due: what is decided is written with the run that came of
it, so that whoever asks next finds the slot gone.
"""

from dataclasses import dataclass
from typing import Any

from headway.core.batch_state import World
from headway.core.command.protocol import Needs
from headway.core.command.run.submit import Submit, SubmitAnswer
from headway.core.document import encode_document
from headway.core.ids import Instant, RunId
from headway.core.run.events import EventType
from headway.core.schedule import SavedSchedule, Schedule


@dataclass(frozen=True, slots=True)
class Begun:
    """The schedule is new, or other than it was: its slots count from this instant."""

    from_at: Instant


@dataclass(frozen=True, slots=True)
class NotDue:
    next_slot_at: Instant
    now: Instant
    """The database's."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Slots were missed, up to this one; no run came of them."""

    slot_at: Instant


@dataclass(frozen=True, slots=True)
class Fired:
    slot_at: Instant
    submitted: SubmitAnswer
    """A refusal is on record: a run that is `rejected`."""


FireAnswer = Begun | NotDue | Dropped | Fired


def begun_schedule(
    schedule: Schedule, before: SavedSchedule | None, *, from_at: Instant
) -> SavedSchedule:
    """The row of a schedule whose slots count from `from_at`; what is paused stays so."""
    revision, is_paused = (0, 0) if before is None else (before.revision, before.is_paused)
    return SavedSchedule(
        schedule.name, schedule.expression, schedule.time_zone, from_at, revision + 1, is_paused
    )


@dataclass(frozen=True, slots=True)
class FireSchedule:
    schedule: Schedule
    run_id: RunId
    """Of the run, should there be one."""

    def need(self, needs: Needs) -> None:
        needs.schedules[self.schedule.name] = None
        self._submission().need(needs)

    def decide(self, world: World) -> FireAnswer:
        schedule = self.schedule
        saved = world.schedules.get(schedule.name)
        if saved is None:
            return self._begin(world, None, from_at=world.now)
        if (saved.expression, saved.time_zone) != (schedule.expression, schedule.time_zone):
            # Not before what is decided, or a clock that went back would fire a slot again.
            from_at = max(world.now, saved.last_slot_at)
            return self._begin(world, saved, from_at=from_at)
        if saved.is_paused:
            # Slots pass by undecided; whoever asks is to look again at each, for it may be resumed.
            return NotDue(schedule.next_slot(after=max(world.now, saved.last_slot_at)), world.now)
        due = schedule.due(after=saved.last_slot_at, now=world.now)
        if due is None:
            return NotDue(schedule.next_slot(after=saved.last_slot_at), world.now)
        decided = saved._replace(last_slot_at=due.slot_at, revision=saved.revision + 1)
        world.schedules[schedule.name] = world.changes.schedules[schedule.name] = decided
        if due.is_dropped:
            self._announce(world, EventType.SCHEDULE_DROPPED, slot_at=due.slot_at)
            return Dropped(due.slot_at)
        self._announce(
            world, EventType.SCHEDULE_FIRED, slot_at=due.slot_at, run_id=str(self.run_id)
        )
        return Fired(due.slot_at, self._submission().decide(world))

    def _begin(self, world: World, before: SavedSchedule | None, *, from_at: Instant) -> Begun:
        saved = begun_schedule(self.schedule, before, from_at=from_at)
        world.schedules[saved.name] = world.changes.schedules[saved.name] = saved
        expression, time_zone = saved.expression, saved.time_zone
        self._announce(
            world, EventType.SCHEDULE_CHANGED, expression=expression, time_zone=time_zone
        )
        return Begun(from_at)

    def _announce(self, world: World, kind: EventType, **facts: str | int) -> None:
        payload = {"name": self.schedule.name, **facts}
        world.announce(kind, encode_document(payload, place="schedule"))

    def _submission(self) -> Submit:
        return scheduled(self.schedule, self.run_id, is_unattended=True)


def scheduled(schedule: Schedule, run_id: RunId, **more: Any) -> Submit:
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
