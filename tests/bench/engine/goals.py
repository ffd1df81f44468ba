"""The goals, and whether the results meet them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.bench.engine.contestants import (
    BEHIND_ONE_KEY,
    IN_A_PAUSED_LANE,
    OF_FUNCTIONS,
    OF_WORKERS,
    STORES,
    Contestant,
)
from tests.bench.engine.order import Work
from tests.bench.engine.results import UNITS, Measure, Result
from tests.bench.figures import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A limit of a value of ours, or of its ratio to the best other on the same ground."""

    work: Work
    store: str
    durability: str = ""
    """The durability of our value. The best other survives as much, unless ours is the least."""
    measure: Measure
    limit: float
    aim: float | None = None
    is_ratio: bool = False
    """The minimum as a multiple of the best other, or else the maximum allowed."""
    is_any_store: bool = False
    """True if the others may use any store."""
    is_least: bool = False
    """True if the limit is a minimum although it is not a ratio."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    goal: Goal
    value: Series
    other: str
    """The name of the best other, or empty if there is none."""

    @property
    def holds(self) -> bool:
        return self._reaches(self.goal.limit)

    @property
    def reaches_aim(self) -> bool:
        return self.goal.aim is not None and self._reaches(self.goal.aim)

    def _reaches(self, limit: float) -> bool:
        is_least = self.goal.is_ratio or self.goal.is_least
        return self.value.median >= limit if is_least else self.value.median <= limit

    def __str__(self) -> str:
        goal, value = self.goal, self.value
        place = f"{goal.work} {STORES[goal.store]}"
        for more in (goal.durability, goal.detail):
            place = f"{place}, {more}" if more else place
        if goal.is_ratio:
            spread = f"({value.low:.2g}-{value.high:.2g})"
            return (
                f"{place}: {value.median:.3g} times {self.other} {spread}; "
                f"must be {goal.limit:g} times: {self._word()}"
            )
        form, unit = UNITS[goal.measure]
        aim = "" if goal.aim is None else f" (aim {goal.aim:g}{unit})"
        bound = "more" if goal.is_least else "less"
        return (
            f"{place}: {goal.measure} {value.median:{form}}{unit}; "
            f"must be {goal.limit:g}{unit} or {bound}{aim}: {self._word()}"
        )

    def _word(self) -> str:
        if self.reaches_aim:
            return "reaches the aim"
        return "holds" if self.holds else "✗ missed"


USUAL: Final = (("sqlite", "process"), ("postgres", ""))


def _at_most(
    work: Work,
    measure: Measure,
    limits: tuple[float, float],
    *,
    aim: float | None = None,
    detail: str = "",
) -> list[Goal]:
    """Make two goals. The first of `limits` is for SQLite, the second for PostgreSQL."""
    return [
        Goal(
            work=work,
            store=store,
            durability=durability,
            measure=measure,
            limit=limit,
            aim=aim,
            detail=detail,
        )
        for (store, durability), limit in zip(USUAL, limits, strict=True)
    ]


def _at_least(
    work: Work, measure: Measure, limit: float, *, aim: float | None = None, detail: str = ""
) -> list[Goal]:
    return [
        replace(goal, is_least=True)
        for goal in _at_most(work, measure, (limit, limit), aim=aim, detail=detail)
    ]


def _at_least_times(
    work: Work,
    limit: float,
    store: str,
    durability: str = "",
    *,
    measure: Measure = Measure.RATE,
    is_any_store: bool = False,
    detail: str = "",
) -> Goal:
    return Goal(
        work=work,
        store=store,
        durability=durability,
        measure=measure,
        limit=limit,
        is_ratio=True,
        is_any_store=is_any_store,
        detail=detail,
    )


def _flow_steps(store: str, durability: str) -> Goal:
    """Make the goals of functions, beside the best other that commits each step on any store."""
    return _at_least_times(
        Work.FLOWS,
        5,
        store,
        durability,
        measure=Measure.STEP_RATE,
        is_any_store=True,
        detail=OF_FUNCTIONS,
    )


GOALS: Final = (
    _at_least_times(Work.DRAIN, 4, "sqlite", "process"),
    _at_least_times(Work.DRAIN, 4, "sqlite", "power"),
    _at_least_times(Work.DRAIN, 0.5, "postgres"),
    *_at_most(Work.PICKUP, Measure.P50, (2, 4)),
    *(_at_least_times(Work.KEYED, 5, *where, is_any_store=True) for where in USUAL),
    *_at_most(Work.KEYED, Measure.VIOLATIONS, (0, 0)),
    *(_flow_steps(*where) for where in USUAL),
    *_at_least(Work.FLOWS, Measure.STEP_RATE, 1_000, aim=2_000, detail=OF_WORKERS),
    *_at_most(Work.RECOVERY, Measure.UNTIL, (20, 20), aim=2),
    *_at_most(Work.SLEEPERS, Measure.MEMORY, (150, 150)),
    *_at_most(Work.SLEEPERS, Measure.P99, (1_000, 1_000)),
    *_at_least(Work.PARKED, Measure.SHARE, 90),
    *_at_most(Work.PARKED, Measure.MEMORY, (200, 200)),
    *_at_most(Work.PARKED, Measure.P99, (1_000, 1_000)),
    *_at_most(Work.IDLE, Measure.CPU_SHARE, (2, 2), detail=BEHIND_ONE_KEY),
    *_at_most(Work.IDLE, Measure.CPU_SHARE, (2, 2), detail=IN_A_PAUSED_LANE),
    *_at_most(Work.STARTUP, Measure.UNTIL, (2, 2)),
)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """Yield the verdicts of the goals that were measured."""
    found = (_verdict(goal, results) for goal in GOALS)
    return [verdict for verdict in found if verdict is not None]


def _verdict(goal: Goal, results: Sequence[Result]) -> Verdict | None:
    same = [result for result in results if result.work is goal.work]
    ours = [result for result in same if _is_ours(goal, result)]
    if not ours:
        return None
    value = ours[0].series(goal.measure)
    if not goal.is_ratio:
        return Verdict(goal, value, "")
    others = [result for result in same if _is_rival(goal, result.entry.contestant)]
    if not others:
        return None
    best = max(others, key=lambda other: other.series(goal.measure).median)
    pairs = zip(value.values, best.series(goal.measure).values, strict=True)
    ratio = Series(tuple(mine / theirs for mine, theirs in pairs))
    rival = best.entry.contestant
    return Verdict(goal, ratio, f"{rival.title}, {rival.store_title}")


def _is_ours(goal: Goal, result: Result) -> bool:
    contestant = result.entry.contestant
    return (
        contestant.is_ours
        and contestant.store == goal.store
        and contestant.durability == goal.durability
        and result.entry.detail == goal.detail
    )


def _is_rival(goal: Goal, contestant: Contestant) -> bool:
    if contestant.is_ours:
        return False
    if goal.is_any_store:
        return True
    survives_as_much = goal.durability != "power" or contestant.durability == "power"
    return contestant.store == goal.store and survives_as_much
