"""What must hold, and whether it does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.engine.contestants import BEHIND_ONE_KEY, IN_A_PAUSED_LANE, STORES
from tests.bench.engine.order import Work
from tests.bench.engine.results import UNITS, Measure, Result
from tests.bench.figures import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A limit to one of our figures, or to its ratio to the best other's on the same ground."""

    work: Work
    store: str
    measure: Measure
    limit: float
    aim: float | None = None
    is_ratio: bool = False
    """Times the best other, which is the least that is wanted; else the most that is allowed."""
    is_any_store: bool = False
    """The others may use any store."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    goal: Goal
    value: Series
    other: str
    """Which the best other is; empty where there is none in it."""

    @property
    def holds(self) -> bool:
        return self._reaches(self.goal.limit)

    @property
    def reaches_aim(self) -> bool:
        return self.goal.aim is not None and self._reaches(self.goal.aim)

    def _reaches(self, limit: float) -> bool:
        return self.value.median >= limit if self.goal.is_ratio else self.value.median <= limit

    def __str__(self) -> str:
        goal, value = self.goal, self.value
        place = f"{goal.work} {STORES[goal.store]}"
        if goal.detail:
            place = f"{place}, {goal.detail}"
        if goal.is_ratio:
            spread = f"({value.low:.2g}-{value.high:.2g})"
            return (
                f"{place}: {value.median:.3g} times {self.other} {spread}; "
                f"must be {goal.limit:g} times: {self._word()}"
            )
        form, unit = UNITS[goal.measure]
        aim = "" if goal.aim is None else f" (aim {goal.aim:g}{unit})"
        return (
            f"{place}: {goal.measure} {value.median:{form}}{unit}; "
            f"must be {goal.limit:g}{unit} or less{aim}: {self._word()}"
        )

    def _word(self) -> str:
        if self.reaches_aim:
            return "reaches the aim"
        return "holds" if self.holds else "✗ missed"


def _at_most(
    work: Work, measure: Measure, *, sqlite: float, postgres: float, aim: float | None = None
) -> tuple[Goal, ...]:
    return (
        Goal(work=work, store="sqlite", measure=measure, limit=sqlite, aim=aim),
        Goal(work=work, store="postgres", measure=measure, limit=postgres, aim=aim),
    )


GOALS: Final = (
    Goal(work=Work.DRAIN, store="sqlite", measure=Measure.RATE, limit=4, is_ratio=True),
    Goal(work=Work.DRAIN, store="postgres", measure=Measure.RATE, limit=0.5, is_ratio=True),
    *_at_most(Work.PICKUP, Measure.P50, sqlite=2, postgres=4),
    *(
        Goal(
            work=Work.KEYED,
            store=store,
            measure=Measure.RATE,
            limit=5,
            is_ratio=True,
            is_any_store=True,
        )
        for store in ("sqlite", "postgres")
    ),
    *_at_most(Work.KEYED, Measure.VIOLATIONS, sqlite=0, postgres=0),
    *_at_most(Work.RECOVERY, Measure.UNTIL, sqlite=20, postgres=20, aim=2),
    *_at_most(Work.SLEEPERS, Measure.MEMORY, sqlite=150, postgres=150),
    *_at_most(Work.SLEEPERS, Measure.P99, sqlite=1_000, postgres=1_000),
    *(
        Goal(work=Work.IDLE, store=store, measure=Measure.CPU_SHARE, limit=2, detail=detail)
        for store in ("sqlite", "postgres")
        for detail in (BEHIND_ONE_KEY, IN_A_PAUSED_LANE)
    ),
    *_at_most(Work.STARTUP, Measure.UNTIL, sqlite=2, postgres=2),
)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """Of the goals of which something was measured."""
    found = (_verdict(goal, results) for goal in GOALS)
    return [verdict for verdict in found if verdict is not None]


def _verdict(goal: Goal, results: Sequence[Result]) -> Verdict | None:
    same = [result for result in results if result.work is goal.work]
    ours = [
        result
        for result in same
        if result.entry.contestant.is_ours
        and result.entry.contestant.store == goal.store
        and result.entry.detail == goal.detail
    ]
    if not ours:
        return None
    value = ours[0].series(goal.measure)
    if not goal.is_ratio:
        return Verdict(goal, value, "")
    others = [
        result
        for result in same
        if not result.entry.contestant.is_ours
        and (goal.is_any_store or result.entry.contestant.store == goal.store)
    ]
    if not others:
        return None
    best = max(others, key=lambda other: other.series(goal.measure).median)
    pairs = zip(value.values, best.series(goal.measure).values, strict=True)
    ratio = Series(tuple(mine / theirs for mine, theirs in pairs))
    return Verdict(goal, ratio, best.entry.contestant.title)
