"""Schedules: when a job is due again and again, and what becomes of times that were missed.

A slot is an instant at which a schedule is due. Slots follow the wall clock of the schedule's time
zone as cron does: a fixed time that a clock change takes away comes when the gap ends, one that it
brings twice comes the first time; if minute or hour begin with a star, slots come as the clock on
the wall shows them. The tables of time zones are constants, read when the schedule is made.
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
from headway.core.ids import CRON_LANE, SECOND_US, Instant, Key, LaneName, add_seconds
from headway.core.run.run import Recovery

GRACE_S: Final = 60.0
"""A slot that is later than this was missed."""
FIELD_COUNT: Final = 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# Some moment: an expression that never comes after it never comes.
_REFERENCE_AT: Final = Instant(1_700_000_000 * SECOND_US)
_HOUR_S: Final = 3_600.0


class MissedPolicy(StrEnum):
    SKIP = "skip"
    """A missed slot is dropped."""
    ONCE = "once"
    """One run stands for all slots that were missed."""


@dataclass(frozen=True, slots=True)
class DueTime:
    fire_at: Instant
    """This slot is decided now, and with it all before it."""
    is_dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    name: str
    expression: str
    """Minute, hour, day of the month, month, day of the week."""
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
        for place in ("name", "expression", "job", "key", "time_zone"):
            object.__setattr__(self, place, check_name(getattr(self, place), field=place))
        for place in ("timeout_s", "queue_timeout_s"):
            if (seconds := getattr(self, place)) is not None:
                check_seconds(seconds, field=place)
        if self.missed not in list(MissedPolicy):
            raise InvalidInput("missed", f"must be one of: {', '.join(MissedPolicy)}")
        object.__setattr__(self, "missed", MissedPolicy(self.missed))
        object.__setattr__(self, "_zone", _load_zone(self.time_zone))
        # Blanks have no meaning: more or fewer of them are not another expression.
        object.__setattr__(self, "expression", " ".join(self.expression.split()))
        self._check_expression()

    def _check_expression(self) -> None:
        count = len(self.expression.split())
        if count != FIELD_COUNT:
            wanted = f"{FIELD_COUNT} fields (minute hour day month weekday)"
            raise InvalidInput("expression", f"must have {wanted}, and not {count}")
        try:
            next(self.fire_times(after=_REFERENCE_AT))
        except CronSimError as error:
            problem = f"{self.expression!r} cannot be read: {str(error).lower()}"
            raise InvalidInput("expression", problem) from None
        except StopIteration:
            raise InvalidInput("expression", f"{self.expression!r} never comes") from None

    def fire_times(self, *, after: Instant) -> Iterator[Instant]:
        """All slots after this instant, in order."""
        for moment in CronSim(self.expression, _to_datetime(after).astimezone(self._zone)):
            fire_at = _to_instant(moment)
            # Seen from within an hour that comes twice, the first of the two may seem to be ahead.
            if fire_at > after:
                after = fire_at
                yield fire_at

    def next_fire_at(self, *, after: Instant) -> Instant:
        return next(self.fire_times(after=after))

    def find_due(self, *, after: Instant, now: Instant) -> DueTime | None:
        """What is to be decided now, if all slots up to `after` have been."""
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
        """The newest slot until now, of which there is one; without a walk over all of them."""
        back_s = _HOUR_S
        while True:  # Until the search begins at `after`, behind which there is a slot.
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
    except (KeyError, ValueError, OSError):  # Unknown; no name at all; a folder.
        raise InvalidInput("time_zone", f"{name!r} is not known here") from None


def _to_datetime(instant: Instant) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)


def _to_instant(moment: datetime) -> Instant:
    return Instant((moment - _EPOCH) // _MICROSECOND)


class SavedSchedule(NamedTuple):
    """The row of a schedule: up to where its slots are decided."""

    name: str
    expression: str
    time_zone: str
    last_fire_at: Instant
    """The last slot that was decided; before there is one, the instant from which they count."""
    revision: int
    is_paused: int = 0
