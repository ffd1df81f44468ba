"""Fire times over clock changes, clock jumps and missed times; refusals of schedules (I18)."""

from datetime import datetime
from itertools import islice, pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.document import NAME_LENGTH_MAX
from headway.core.errors import InvalidInput
from headway.core.ids import SECOND_US, Instant, add_seconds
from headway.core.schedule import DueTime, MissedPolicy, Schedule
from headway.testing import a_schedule

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
DAY_S = 24 * 3_600.0


def at(text: str, zone: str = "UTC", *, fold: int = 0) -> Instant:
    """Return the instant at which a wall clock of this zone shows `text`."""
    wall = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return Instant(round(wall.timestamp() * SECOND_US))


def fire_times(schedule: Schedule, after: Instant, count: int) -> list[Instant]:
    return list(islice(schedule.fire_times(after=after), count))


def fire_times_until(end: Instant, schedule: Schedule, after: Instant) -> list[Instant]:
    return list(takewhile(lambda fire_at: fire_at <= end, schedule.fire_times(after=after)))


# Clock changes.


@pytest.mark.proves("I18")
@pytest.mark.parametrize(
    ("zone", "day", "gap_ends"),
    [(BERLIN, "2026-03-29", "03:00"), (NEW_YORK, "2026-03-08", "03:00")],
)
def test_time_skipped_in_spring_fires_when_the_gap_ends(zone: str, day: str, gap_ends: str) -> None:
    daily = a_schedule("30 2 * * *", time_zone=zone)
    before = add_seconds(at(f"{day}T00:00", zone), seconds=-DAY_S)
    first, second, third = fire_times(daily, before, 3)
    assert first < second == at(f"{day}T{gap_ends}", zone) < third
    assert third - second == 23.5 * 3_600 * SECOND_US


@pytest.mark.proves("I18")
@pytest.mark.parametrize(("zone", "day"), [(BERLIN, "2026-10-25"), (NEW_YORK, "2026-11-01")])
def test_time_repeated_in_autumn_fires_the_first_time_only(zone: str, day: str) -> None:
    hour = "02" if zone == BERLIN else "01"
    daily = a_schedule(f"30 {hour} * * *", time_zone=zone)
    first_at, second_at = (at(f"{day}T{hour}:30", zone, fold=fold) for fold in (0, 1))
    assert second_at - first_at == 3_600 * SECOND_US
    tomorrow_at = Instant(first_at + 25 * 3_600 * SECOND_US)
    assert fire_times(daily, at(f"{day}T00:00", zone), 2) == [first_at, tomorrow_at]


@pytest.mark.proves("I18")
def test_schedule_does_not_fire_again_in_the_second_repeated_hour() -> None:
    daily = a_schedule("30 2 * * *", time_zone=BERLIN)
    within = at("2026-10-25T02:10", BERLIN, fold=1)
    assert daily.next_fire_at(after=within) == at("2026-10-26T02:30", BERLIN)


@pytest.mark.proves("I18")
@pytest.mark.parametrize(
    ("zone", "day"),
    [
        *[(BERLIN, "2026-10-25"), (NEW_YORK, "2026-11-01")],
        *[(BERLIN, "2026-03-29"), (NEW_YORK, "2026-03-08")],
    ],
)
def test_hourly_job_fires_every_hour_through_clock_changes(zone: str, day: str) -> None:
    hourly = a_schedule("30 * * * *", time_zone=zone)
    times = fire_times(hourly, at(f"{day}T00:00", zone), 6)
    assert {after - before for before, after in pairwise(times)} == {3_600 * SECOND_US}


@pytest.mark.proves("I18")
def test_expression_with_a_star_follows_the_wall_clock_through_clock_changes() -> None:
    starred = a_schedule("*/30 2 * * *", time_zone=BERLIN)
    in_autumn = [at(f"2026-10-25T02:{m}", BERLIN, fold=fold) for fold in (0, 1) for m in ("00", 30)]
    assert fire_times(starred, at("2026-10-25T00:00", BERLIN), 4) == in_autumn
    after_the_gap = starred.next_fire_at(after=at("2026-03-29T00:00", BERLIN))
    assert after_the_gap == at("2026-03-30T02:00", BERLIN)


@pytest.mark.proves("I18")
def test_schedule_for_29_february_fires_only_in_leap_years() -> None:
    leap = a_schedule("0 12 29 2 *", time_zone=NEW_YORK)
    times = fire_times(leap, at("2026-01-01T00:00"), 3)
    assert times == [at(f"{year}-02-29T12:00", NEW_YORK) for year in (2028, 2032, 2036)]


@pytest.mark.proves("I18")
@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    expression=st.sampled_from(
        ["30 2 * * *", "*/20 * * * *", "0 1-3 * * *", "15,45 */2 * * SUN", "0 0 * * *"]
    ),
    zone=st.sampled_from([BERLIN, NEW_YORK, "UTC", "Africa/Cairo"]),
    change=st.sampled_from(["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-24"]),
    start_s=st.integers(-2 * 86_400, 2 * 86_400),
)
@pytest.mark.slow
def test_fire_times_do_not_depend_on_the_start_of_the_search(
    expression: str, zone: str, change: str, start_s: int
) -> None:
    schedule = a_schedule(expression, time_zone=zone)
    middle = at(f"{change}T01:00")
    start, end = add_seconds(middle, seconds=start_s), add_seconds(middle, seconds=8 * DAY_S)
    everything = fire_times_until(end, schedule, add_seconds(middle, seconds=-9 * DAY_S))
    expected = [fire_at for fire_at in everything if fire_at > start]
    assert fire_times_until(end, schedule, start) == expected


# Due, missed, neither.

NINE, TEN = at("2026-05-04T09:00"), at("2026-05-04T10:00")


def hourly(missed: MissedPolicy = MissedPolicy.SKIP) -> Schedule:
    return a_schedule("0 * * * *", missed=missed)


@pytest.mark.proves("I18")
@pytest.mark.parametrize("missed", MissedPolicy)
def test_fire_time_is_due_from_its_instant_and_never_before(missed: MissedPolicy) -> None:
    assert hourly(missed).find_due(after=NINE, now=Instant(TEN - 1)) is None
    assert hourly(missed).find_due(after=NINE, now=TEN) == DueTime(TEN)
    assert hourly(missed).find_due(after=TEN, now=TEN) is None


@pytest.mark.proves("I18")
@pytest.mark.parametrize("missed", MissedPolicy)
def test_schedule_does_not_fire_again_after_the_clock_jumps_back(missed: MissedPolicy) -> None:
    for back_s in (0.000001, 1, 3_599, 3_600, 40 * DAY_S):
        now = add_seconds(TEN, seconds=-back_s)
        assert hourly(missed).find_due(after=TEN, now=now) is None
    assert hourly(missed).next_fire_at(after=TEN) == at("2026-05-04T11:00")


@pytest.mark.proves("I18")
def test_fire_time_is_missed_when_it_is_more_than_a_minute_late() -> None:
    in_time, too_late = add_seconds(TEN, seconds=60), add_seconds(TEN, seconds=60.000001)
    assert hourly().find_due(after=NINE, now=in_time) == DueTime(TEN)
    assert hourly().find_due(after=NINE, now=too_late) == DueTime(TEN, is_dropped=True)
    assert hourly(MissedPolicy.ONCE).find_due(after=NINE, now=too_late) == DueTime(TEN)


@pytest.mark.proves("I18")
def test_policy_skip_drops_all_missed_times_and_policy_once_fires_the_last() -> None:
    now = at("2027-02-03T04:30")
    newest = at("2027-02-03T04:00")
    assert hourly().find_due(after=NINE, now=now) == DueTime(newest, is_dropped=True)
    assert hourly(MissedPolicy.ONCE).find_due(after=NINE, now=now) == DueTime(newest)
    for missed in MissedPolicy:
        assert hourly(missed).find_due(after=newest, now=now) is None


@pytest.mark.proves("I18")
@pytest.mark.parametrize("missed", MissedPolicy)
@pytest.mark.parametrize("late_s", [0, 30, 60])
def test_fire_time_that_is_not_late_fires_in_place_of_earlier_missed_ones(
    missed: MissedPolicy, late_s: float
) -> None:
    noon = at("2026-05-04T12:00")
    assert hourly(missed).find_due(after=NINE, now=add_seconds(noon, seconds=late_s)) == DueTime(
        noon
    )


@pytest.mark.proves("I18")
@pytest.mark.parametrize("missed", MissedPolicy)
def test_two_fire_times_that_are_not_late_fire_one_after_the_other(missed: MissedPolicy) -> None:
    each_minute = a_schedule("* * * * *", missed=missed)
    now = add_seconds(TEN, seconds=60)
    assert each_minute.find_due(after=Instant(TEN - 1), now=now) == DueTime(TEN)
    assert each_minute.find_due(after=TEN, now=now) == DueTime(now)
    assert each_minute.find_due(after=now, now=now) is None


@pytest.mark.proves("I18")
def test_year_of_missed_fire_times_is_decided_without_visiting_each_one() -> None:
    """The decision is made under locks, so it must not take seconds."""
    each_minute = a_schedule("* * * * *", missed=MissedPolicy.ONCE)
    step_count = 0

    class Counted(Schedule):
        def fire_times(self, *, after: Instant) -> Any:
            nonlocal step_count
            for fire_at in super().fire_times(after=after):
                step_count += 1
                yield fire_at

    counted = Counted(
        name="a",
        expression=each_minute.expression,
        job="a",
        key=each_minute.key,
        missed=MissedPolicy.ONCE,
    )
    now = add_seconds(TEN, seconds=365 * DAY_S + 61)
    assert counted.find_due(after=TEN, now=now) == DueTime(
        add_seconds(TEN, seconds=365 * DAY_S + 60)
    )
    assert step_count < 100


@pytest.mark.proves("I18")
def test_missed_yearly_fire_time_is_found_after_several_years() -> None:
    yearly = a_schedule("0 0 29 2 *", missed=MissedPolicy.ONCE)
    now = at("2031-12-31T00:00")
    assert yearly.find_due(after=NINE, now=now) == DueTime(at("2028-02-29T00:00"))


# Refusals.


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("field", "problem", "wrong"),
    [
        ("expression", "bad minute", {"expression": "60 * * * *"}),
        ("expression", "bad hour", {"expression": "0 24 * * *"}),
        ("expression", "bad day-of-month", {"expression": "0 0 30 2 *"}),
        ("expression", "bad day-of-week", {"expression": "0 0 * * someday"}),
        ("expression", "never fires", {"expression": "0 0 */40 * 1#5"}),
        (
            "expression",
            "must have 5 fields (minute hour day month weekday), not 6",
            {"expression": "0 0 3 * * *"},
        ),
        ("expression", ", not 1", {"expression": "@daily"}),
        ("expression", "must not be empty", {"expression": " "}),
        ("expression", "the limit is", {"expression": "0 " * NAME_LENGTH_MAX}),
        ("expression", "must be text", {"expression": None}),
        ("time_zone", "'Europe/Berlim' is not a time zone", {"time_zone": "Europe/Berlim"}),
        ("time_zone", "'Europe' is not a time zone", {"time_zone": "Europe"}),
        ("time_zone", "'../../etc/passwd' is not a time zone", {"time_zone": "../../etc/passwd"}),
        ("missed", "must be one of: skip, once", {"missed": "always"}),
        ("name", "must not be empty", {"name": ""}),
        ("key", "must not be empty", {"key": ""}),
        ("job", "must not be empty", {"job": ""}),
        ("timeout_s", "must be 0 to", {"timeout_s": -1.0}),
    ],
    ids=str,
)
def test_invalid_schedule_is_refused_with_the_field_named(
    field: str, problem: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        a_schedule(**wrong)
    assert refused.value.field == field
    assert problem in refused.value.problem


@pytest.mark.proves("I15")
def test_blanks_around_names_and_between_fields_are_ignored() -> None:
    assert a_schedule(" 0  3 * * * ", name=" a ") == a_schedule("0 3 * * *", name="a")
