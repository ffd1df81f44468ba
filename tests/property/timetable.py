"""What must become of schedules, for expressions whose slots are plain multiples of a period."""

from typing import Final

from headway.core.command.fire import Begun, Dropped, FireAnswer, Fired, FireSchedule, NotDue
from headway.core.command.submit import Submit, SubmitAnswer
from headway.core.ids import CRON_LANE, Instant
from headway.core.schedule import Missed
from headway.core.world import SavedSchedule
from tests.property.housekeeping import Housekeeping

PERIODS_S: Final = {"* * * * *": 60, "*/5 * * * *": 300}


class Timetable(Housekeeping):
    def submit(self, wanted: Submit) -> SubmitAnswer:
        raise NotImplementedError

    def fire(self, wanted: FireSchedule) -> FireAnswer:
        schedule = wanted.schedule
        saved = self.schedules.get(schedule.name)
        is_same = saved is not None and (saved.expression, saved.time_zone) == (
            *(schedule.expression, schedule.time_zone),
        )
        if saved is None or not is_same:
            from_at = self.now if saved is None else max(self.now, saved.last_slot_at)
            self._decide(wanted, from_at)
            about = {"expression": schedule.expression, "time_zone": schedule.time_zone}
            self.emit(None, "schedule_changed", {"name": schedule.name, **about})
            return Begun(from_at)
        period_us = PERIODS_S[schedule.expression] * 1_000_000
        first_at = Instant((saved.last_slot_at // period_us + 1) * period_us)
        if first_at > self.now:
            return NotDue(first_at, self.now)
        undecided = [Instant(at) for at in range(first_at, self.now + 1, period_us)]
        in_time = [at for at in undecided if self.now - at <= 60_000_000]
        if in_time == undecided or (in_time and schedule.missed is Missed.SKIP):
            return self._fire(wanted, in_time[0])
        if schedule.missed is Missed.ONCE:
            return self._fire(wanted, undecided[-1])
        self._decide(wanted, undecided[-1])
        payload = {"name": schedule.name, "slot_at": undecided[-1]}
        self.emit(None, "schedule_dropped", payload)
        return Dropped(undecided[-1])

    def _fire(self, wanted: FireSchedule, slot_at: Instant) -> Fired:
        schedule = wanted.schedule
        self._decide(wanted, slot_at)
        payload = {"name": schedule.name, "slot_at": slot_at, "run_id": wanted.run_id}
        self.emit(None, "schedule_fired", payload)
        submission = Submit(
            run_id=wanted.run_id,
            key=schedule.key,
            job=schedule.job,
            params=schedule.params,
            lane=CRON_LANE,
            is_unattended=True,
        )
        return Fired(slot_at, self.submit(submission))

    def _decide(self, wanted: FireSchedule, up_to: Instant) -> None:
        schedule = wanted.schedule
        saved = self.schedules.get(schedule.name)
        revision = 1 if saved is None else saved.revision + 1
        self.schedules[schedule.name] = SavedSchedule(
            schedule.name, schedule.expression, schedule.time_zone, up_to, revision
        )
