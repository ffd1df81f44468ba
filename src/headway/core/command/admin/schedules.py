"""Fire, pause and resume schedules. Each fire time of a schedule is decided exactly once.

Any instance may apply `FireSchedule` at any time. The row of the schedule stores the last fire time
that was decided, and the database's clock determines which fire times are due. The decision is
written in the same transaction as the run that it starts, so the next instance finds the fire time
already decided.
"""

from dataclasses import dataclass
from typing import ClassVar

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RevisionMismatch, RowsNeeded
from headway.core.command.run.submit import Submit, SubmitResult, make_submit
from headway.core.document import check_text
from headway.core.event_payloads import (
    ScheduleChanged,
    ScheduleDropped,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
)
from headway.core.ids import Instant, RunId
from headway.core.schedule import SavedSchedule, Schedule


@dataclass(frozen=True, slots=True)
class ScheduleReset:
    """The schedule is new or has changed. Its fire times count from `effective_since`."""

    effective_since: Instant


@dataclass(frozen=True, slots=True)
class NotDue:
    next_fire_at: Instant
    now: Instant
    """The time of the database's clock."""


@dataclass(frozen=True, slots=True)
class FireDropped:
    """All fire times up to `fire_at` were missed. They start no run."""

    fire_at: Instant


@dataclass(frozen=True, slots=True)
class Fired:
    fire_at: Instant
    submit_result: SubmitResult
    """The result of submitting the run. A refusal is stored as a run with status `rejected`."""


FireResult = ScheduleReset | NotDue | FireDropped | Fired


def reset_schedule(
    schedule: Schedule, before: SavedSchedule | None, *, since: Instant
) -> SavedSchedule:
    """Return the row of a schedule whose fire times count from `since`.

    A schedule that is paused stays paused.
    """
    revision, is_paused = (0, 0) if before is None else (before.revision, before.is_paused)
    return SavedSchedule(
        schedule.name, schedule.expression, schedule.time_zone, since, revision + 1, is_paused
    )


@dataclass(frozen=True, slots=True)
class FireSchedule:
    """Decide a schedule's due fire times, and start one run unless all of them are dropped."""

    schedule: Schedule
    run_id: RunId
    """The id of the run, if one is started."""

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return len(self.schedule.params)

    def need(self, rows: RowsNeeded) -> None:
        rows.schedules[self.schedule.name] = None
        self._submission().need(rows)

    def decide(self, batch: BatchState) -> FireResult:
        schedule = self.schedule
        saved = batch.schedules.get(schedule.name)
        if saved is None:
            return self._reset(batch, None, since=batch.now)
        # Never earlier than the last decision: a clock that is set back must not fire twice.
        since = max(batch.now, saved.last_fire_at)
        if (saved.expression, saved.time_zone) != (schedule.expression, schedule.time_zone):
            return self._reset(batch, saved, since=since)
        if saved.is_paused:
            # Fire times pass undecided. The caller polls at each one, in case it is resumed.
            return NotDue(schedule.next_fire_at(after=since), batch.now)
        due = schedule.find_due(after=saved.last_fire_at, now=batch.now)
        if due is None:
            return NotDue(schedule.next_fire_at(after=saved.last_fire_at), batch.now)
        decided = saved._replace(last_fire_at=due.fire_at, revision=saved.revision + 1)
        batch.schedules[schedule.name] = batch.changes.schedules[schedule.name] = decided
        if due.is_dropped:
            batch.emit_global(ScheduleDropped(schedule.name, due.fire_at))
            return FireDropped(due.fire_at)
        batch.emit_global(ScheduleFired(schedule.name, due.fire_at, self.run_id))
        return Fired(due.fire_at, self._submission().decide(batch))

    def _reset(
        self, batch: BatchState, before: SavedSchedule | None, *, since: Instant
    ) -> ScheduleReset:
        saved = reset_schedule(self.schedule, before, since=since)
        batch.schedules[saved.name] = batch.changes.schedules[saved.name] = saved
        batch.emit_global(ScheduleChanged(saved.name, saved.expression, saved.time_zone))
        return ScheduleReset(since)

    def _submission(self) -> Submit:
        schedule = self.schedule
        return make_submit(
            schedule,
            schedule.job,
            self.run_id,
            key=schedule.key,
            params=schedule.params,
            is_unattended=True,
        )


@dataclass(frozen=True, slots=True)
class PauseSchedule:
    """Pause a schedule, or resume it. Fire times during the pause do not count as missed."""

    schedule: Schedule
    is_paused: bool
    """False to resume: fire times count again from now on."""
    by: str = ""
    expected_revision: int | None = None

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_text(self.by, field="by")

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.schedules[self.schedule.name] = None

    def decide(self, batch: BatchState) -> SavedSchedule | RevisionMismatch:
        """Return the resulting row. A row that is already in the requested state is not changed."""
        name = self.schedule.name
        saved = batch.schedules.get(name)
        revision = 0 if saved is None else saved.revision
        if self.expected_revision not in (None, revision):
            return RevisionMismatch(revision)
        if saved is not None and saved.is_paused == self.is_paused:
            return saved
        # Never earlier than the last decision: a clock that is set back must not fire twice.
        since = batch.now if saved is None else max(batch.now, saved.last_fire_at)
        reset = reset_schedule(self.schedule, saved, since=since)
        changed = reset._replace(is_paused=int(self.is_paused))
        batch.schedules[name] = batch.changes.schedules[name] = changed
        batch.emit_global((SchedulePaused if self.is_paused else ScheduleResumed)(name, self.by))
        return changed
