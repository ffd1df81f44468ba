"""The model of schedules, for expressions whose fire times are multiples of a period."""

from typing import Final

from headway.core.command.admin.schedules import (
    Fired,
    FireDropped,
    FireResult,
    FireSchedule,
    NotDue,
    ScheduleReset,
)
from headway.core.command.run.submit import Submit, SubmitResult
from headway.core.document import Document
from headway.core.ids import CRON_LANE, Instant, Key
from headway.core.schedule import MissedPolicy, SavedSchedule, Schedule
from tests.property.admin_model import AdminModel

PERIODS_S: Final = {"* * * * *": 60, "*/5 * * * *": 300}
# Two names, each of which mostly keeps its expression.
SCHEDULES: Final = [
    Schedule(
        name=name,
        expression=expression,
        time_zone=time_zone,
        job="mail",
        key=Key(key),
        params=Document('{"n":1}'),
        missed=missed,
    )
    for name, key in (("often", "ann"), ("Often", "bob"))
    for missed in MissedPolicy
    for expression, time_zone in (
        *[("* * * * *", "UTC")] * 3,
        *[("*/5 * * * *", "UTC")] * 3,
        ("* * * * *", "Europe/Berlin"),
    )
]


class ScheduleModel(AdminModel):
    def submit(self, command: Submit) -> SubmitResult:
        raise NotImplementedError

    def fire(self, command: FireSchedule) -> FireResult:
        schedule = command.schedule
        saved = self.schedules.get(schedule.name)
        if not self.is_as_saved(schedule):
            from_at = self.now if saved is None else max(self.now, saved.last_fire_at)
            self._decide(command, from_at)
            about = {"expression": schedule.expression, "time_zone": schedule.time_zone}
            self.emit(None, "schedule_changed", {"name": schedule.name, **about})
            return ScheduleReset(from_at)
        undecided = self.undecided(schedule)
        if not undecided:
            return NotDue(self._first_fire_at(schedule), self.now)
        in_time = [at for at in undecided if self.now - at <= 60_000_000]
        if in_time == undecided or (in_time and schedule.missed is MissedPolicy.SKIP):
            return self._fire(command, in_time[0])
        if schedule.missed is MissedPolicy.ONCE:
            return self._fire(command, undecided[-1])
        self._decide(command, undecided[-1])
        payload = {"name": schedule.name, "fire_at": undecided[-1]}
        self.emit(None, "schedule_dropped", payload)
        return FireDropped(undecided[-1])

    def is_as_saved(self, schedule: Schedule) -> bool:
        saved = self.schedules.get(schedule.name)
        expected = (schedule.expression, schedule.time_zone)
        return saved is not None and (saved.expression, saved.time_zone) == expected

    def undecided(self, schedule: Schedule) -> list[Instant]:
        """Return the fire times until now that were not decided yet."""
        if not self.is_as_saved(schedule):
            return []
        period_us = PERIODS_S[schedule.expression] * 1_000_000
        return [Instant(at) for at in range(self._first_fire_at(schedule), self.now + 1, period_us)]

    def _first_fire_at(self, schedule: Schedule) -> Instant:
        period_us = PERIODS_S[schedule.expression] * 1_000_000
        after = self.schedules[schedule.name].last_fire_at
        return Instant((after // period_us + 1) * period_us)

    def _fire(self, command: FireSchedule, fire_at: Instant) -> Fired:
        schedule = command.schedule
        self._decide(command, fire_at)
        payload = {"name": schedule.name, "fire_at": fire_at, "run_id": command.run_id}
        self.emit(None, "schedule_fired", payload)
        submission = Submit(
            run_id=command.run_id,
            key=schedule.key,
            job=schedule.job,
            params=schedule.params,
            lane=CRON_LANE,
            is_unattended=True,
        )
        return Fired(fire_at, self.submit(submission))

    def _decide(self, command: FireSchedule, up_to: Instant) -> None:
        schedule = command.schedule
        saved = self.schedules.get(schedule.name)
        revision = 1 if saved is None else saved.revision + 1
        self.schedules[schedule.name] = SavedSchedule(
            schedule.name, schedule.expression, schedule.time_zone, up_to, revision
        )
