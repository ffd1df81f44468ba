"""The results of the rounds, and whether they meet the goals."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from tests.bench.plan import (
    GROWTH_RATIO_MIN,
    LATENCY_BACKEND,
    LATENCY_MS_MAX,
    RATIO_BACKENDS,
    RATIO_CALLERS,
    RATIO_MIN,
    What,
)

Unit = Literal["1/s", "ms"]


@dataclass(frozen=True, slots=True)
class Series:
    """One value for each round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table: our value, and its reference."""

    backend: str
    title: str
    what: What
    detail: str
    """A description for people."""
    callers: int
    unit: Unit
    headway: Series
    reference: Series
    """The raw driver in the same rounds; for growth, the store with few finished runs."""
    headway_cpu_us: Series
    reference_cpu_us: Series
    is_judged: bool = True
    """True if the value has a goal."""

    @property
    def ratio(self) -> Series:
        """The ratio of each round, so that a disturbance of a round affects both of its sides."""
        pairs = zip(self.headway.values, self.reference.values, strict=True)
        return Series(tuple(ours / other for ours, other in pairs))

    @property
    def miss(self) -> str | None:
        """Return the goal that is not met as a sentence, or None."""
        if not self.is_judged:
            return None
        place = f"{self.title}, {self.detail}, callers: {self.callers:,}"
        ratio = self.ratio.median
        match self.what:
            case What.CYCLES if self.must_reach_ratio and ratio < RATIO_MIN:
                return f"{place}: {ratio:.0%} of the raw driver's rate, must be {RATIO_MIN:.0%}"
            case What.LATENCY if self.must_be_quick and self.headway.median >= LATENCY_MS_MAX:
                return f"{place}: {self.headway.median:.2f} ms, must be below {LATENCY_MS_MAX:g} ms"
            case What.GROWTH if ratio < GROWTH_RATIO_MIN:
                return f"{place}: {ratio:.0%} of the rate, must be {GROWTH_RATIO_MIN:.0%}"
        return None

    @property
    def must_reach_ratio(self) -> bool:
        return (
            self.what is What.CYCLES
            and self.callers == RATIO_CALLERS
            and self.backend in RATIO_BACKENDS
        )

    @property
    def must_be_quick(self) -> bool:
        return (
            self.what is What.LATENCY and self.backend == LATENCY_BACKEND and "p50" in self.detail
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "what": self.what.value,
            "detail": self.detail,
            "callers": self.callers,
            "unit": self.unit,
            "headway": _as_json(self.headway),
            "reference": _as_json(self.reference),
            "ratio": _as_json(self.ratio),
            "headway_cpu_us": _as_json(self.headway_cpu_us),
            "reference_cpu_us": _as_json(self.reference_cpu_us),
            "miss": self.miss,
        }


def _as_json(series: Series) -> dict[str, Any]:
    return {
        "median": _rounded(series.median),
        "rounds": [_rounded(value) for value in series.values],
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def misses(figures: Sequence[Figure]) -> list[str]:
    return [figure.miss for figure in figures if figure.miss is not None]
