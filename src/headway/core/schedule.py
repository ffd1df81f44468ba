"""Schedules: when a job is due, and what happens to fire times that were missed.

Fire times follow the wall clock of the schedule's time zone as in cron. A fixed time that a clock
change skips fires when the gap ends. A fixed time that a clock change repeats fires the first time.
If the minute or the hour starts with a star, the schedule fires whenever the wall clock shows a
matching time. The time zone data is constant, and is read when the schedule is created.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from headway.core.document import EMPTY_OBJECT, Document, check_name
from headway.core.duration import check_seconds
from headway.core.errors import InvalidInput
from headway.core.ids import CRON_LANE, SECOND_US, Flag, Instant, Key, LaneName, add_seconds
from headway.core.run.run import Recovery

GRACE_S: Final = 60.0
"""A fire time that is overdue by more than this was missed."""
FIELD_COUNT: Final = 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# Any instant will do: an expression that has no fire time after it never fires.
_REFERENCE_AT: Final = Instant(1_700_000_000 * SECOND_US)
_HOUR_S: Final = 3_600.0


class MissedPolicy(StrEnum):
    SKIP = "skip"
    """Missed fire times are dropped."""
    ONCE = "once"
    """One run replaces all missed fire times."""


@dataclass(frozen=True, slots=True)
class DueTime:
    fire_at: Instant
    """The fire time to decide now. All earlier fire times are decided with it."""
    is_dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A job that is started at the times of a cron expression."""

    name: str
    expression: str
    """Five cron fields: minute, hour, day of the month, month, day of the week."""
    job: str
    key: Key
    params: Document = EMPTY_OBJECT
    time_zone: str = "UTC"
    missed: MissedPolicy = MissedPolicy.SKIP
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    recovery: Recovery = Recovery.RESUME
    lane: LaneName = CRON_LANE
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("name", "expression", "job", "key", "time_zone"):
            object.__setattr__(self, name, check_name(getattr(self, name), field=name))
        for name in ("timeout_s", "queue_timeout_s"):
            if (seconds := getattr(self, name)) is not None:
                check_seconds(seconds, field=name)
        if self.missed not in list(MissedPolicy):
            raise InvalidInput("missed", f"must be one of: {', '.join(MissedPolicy)}")
        object.__setattr__(self, "missed", MissedPolicy(self.missed))
        object.__setattr__(self, "_zone", _load_zone(self.time_zone))
        # The number of blanks has no meaning, so it must not make a different expression.
        object.__setattr__(self, "expression", " ".join(self.expression.split()))
        self._check_expression()

    def _check_expression(self) -> None:
        count = len(self.expression.split())
        if count != FIELD_COUNT:
            expected = f"{FIELD_COUNT} fields (minute hour day month weekday)"
            raise InvalidInput("expression", f"must have {expected}, not {count}")
        try:
            next(self.fire_times(after=_REFERENCE_AT))
        except CronSimError as error:
            problem = f"{self.expression!r} is invalid: {str(error).lower()}"
            raise InvalidInput("expression", problem) from None
        except StopIteration:
            raise InvalidInput("expression", f"{self.expression!r} never fires") from None

    def fire_times(self, *, after: Instant) -> Iterator[Instant]:
        """Yield all fire times after this instant, in order."""
        for moment in CronSim(self.expression, _to_datetime(after).astimezone(self._zone)):
            fire_at = _to_instant(moment)
            # In a repeated hour CronSim may yield the first occurrence, which is already past.
            if fire_at > after:
                after = fire_at
                yield fire_at

    def next_fire_at(self, *, after: Instant) -> Instant:
        return next(self.fire_times(after=after))

    def find_due(self, *, after: Instant, now: Instant) -> DueTime | None:
        """Return the fire time to decide now, or None if none is due.

        All fire times up to `after` are already decided.
        """
        first_at = self.next_fire_at(after=after)
        if first_at > now:
            return None
        timely_from = add_seconds(now, seconds=-GRACE_S)
        if first_at >= timely_from:
            return DueTime(first_at)
        if self.missed is MissedPolicy.ONCE:
            return DueTime(self._last_fire_at(after=after, now=now))
        timely_at = self.next_fire_at(after=Instant(timely_from - 1))
        if timely_at <= now:
            return DueTime(timely_at)
        return DueTime(self._last_fire_at(after=after, now=now), is_dropped=True)

    def _last_fire_at(self, *, after: Instant, now: Instant) -> Instant:
        """Return the last fire time after `after` and up to `now`. There must be one.

        The search starts near `now`, so that it does not visit all fire times.
        """
        back_s = _HOUR_S
        while True:  # Ends at the latest when the search starts from `after`.
            last_at = None
            for fire_at in self.fire_times(after=max(after, add_seconds(now, seconds=-back_s))):
                if fire_at > now:
                    break
                last_at = fire_at
            if last_at is not None:
                return last_at
            back_s *= 24


def _load_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # An unknown zone, an invalid name, a folder.
        raise InvalidInput(
            "time_zone",
            f"{name!r} is not a time zone that this host has; use a name such as Europe/Berlin",
        ) from None


def _to_datetime(instant: Instant) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)


def _to_instant(moment: datetime) -> Instant:
    return Instant((moment - _EPOCH) // _MICROSECOND)


class SavedSchedule(NamedTuple):
    """The row of a schedule. It records up to which fire time the schedule is decided."""

    name: str
    expression: str
    time_zone: str
    last_fire_at: Instant
    """The last fire time that was decided, or the instant from which fire times count."""
    revision: int
    is_paused: Flag = 0
