"""The results of the rounds of one entry, measure by measure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isinf
from statistics import quantiles
from typing import Any, Final

from tests.bench.engine.contestants import Entry
from tests.bench.engine.order import Answer, Work
from tests.bench.figures import Series


class Measure(StrEnum):
    RATE = "jobs/s"
    CPU = "CPU per job"
    P50 = "p50"
    P99 = "p99"
    VIOLATIONS = "violations"
    UNTIL = "time"
    MEMORY = "memory"
    CPU_SHARE = "CPU"
    CPU_TIME = "CPU time"
    STEP_RATE = "steps/s"
    STEP_CPU = "CPU per step"
    SHARE = "rate beside them"


def _percentile_ms(percent: int) -> Callable[[Answer], float]:
    return lambda answer: quantiles(answer.times_ms, n=100)[percent - 1]


VALUE_OF: Final[Mapping[Measure, Callable[[Answer], float]]] = {
    Measure.RATE: lambda answer: answer.count / answer.elapsed_s,
    Measure.CPU: lambda answer: answer.cpu_s / answer.count * 1e6,
    Measure.P50: _percentile_ms(50),
    Measure.P99: _percentile_ms(99),
    Measure.VIOLATIONS: lambda answer: answer.violation_count,
    Measure.UNTIL: lambda answer: answer.elapsed_s,
    Measure.MEMORY: lambda answer: answer.memory_bytes / 1e6,
    Measure.CPU_SHARE: lambda answer: answer.cpu_s / answer.elapsed_s * 100,
    Measure.CPU_TIME: lambda answer: answer.cpu_s,
    Measure.STEP_RATE: lambda answer: answer.count / answer.elapsed_s,
    Measure.STEP_CPU: lambda answer: answer.cpu_s / answer.count * 1e6,
    Measure.SHARE: lambda answer: answer.reference_s / answer.elapsed_s * 100,
}
UNITS: Final[Mapping[Measure, tuple[str, str]]] = {
    Measure.RATE: (",.0f", "/s"),
    Measure.CPU: (",.0f", " µs"),
    Measure.P50: (",.2f", " ms"),
    Measure.P99: (",.2f", " ms"),
    Measure.VIOLATIONS: (",.0f", ""),
    Measure.UNTIL: (".2f", " s"),
    Measure.MEMORY: (",.0f", " MB"),
    Measure.CPU_SHARE: (".2f", "%"),
    Measure.CPU_TIME: (".2f", " s"),
    Measure.STEP_RATE: (",.0f", "/s"),
    Measure.STEP_CPU: (",.0f", " µs"),
    Measure.SHARE: (".0f", "%"),
}
MEASURES: Final[Mapping[Work, tuple[Measure, ...]]] = {
    Work.DRAIN: (Measure.RATE, Measure.CPU),
    Work.PICKUP: (Measure.P50, Measure.P99, Measure.CPU),
    Work.KEYED: (Measure.RATE, Measure.CPU, Measure.VIOLATIONS),
    Work.FLOWS: (Measure.STEP_RATE, Measure.STEP_CPU),
    Work.RECOVERY: (Measure.UNTIL,),
    Work.SLEEPERS: (Measure.MEMORY, Measure.P50, Measure.P99),
    Work.PARKED: (Measure.SHARE, Measure.MEMORY, Measure.P50, Measure.P99),
    Work.IDLE: (Measure.CPU_SHARE,),
    Work.STARTUP: (Measure.UNTIL, Measure.CPU_TIME),
}


@dataclass(frozen=True, slots=True)
class Result:
    entry: Entry
    answers: tuple[Answer, ...]
    """The values, one for each round."""

    @property
    def work(self) -> Work:
        return self.entry.order.work

    def series(self, measure: Measure) -> Series:
        return Series(tuple(VALUE_OF[measure](answer) for answer in self.answers))

    def format_measure(self, measure: Measure) -> str:
        """Return the median, and the spread of the rounds, as text."""
        series, (form, unit) = self.series(measure), UNITS[measure]
        order = self.entry.order
        if measure is Measure.VIOLATIONS and order.job_count <= order.key_count:
            return "no key came twice"
        if isinf(series.median):
            return "not in time"
        text = f"{series.median:{form}}{unit}"
        if series.low == series.high:
            return text
        high = "not in time" if series.high == inf else f"{series.high:{form}}"
        return f"{text} ({series.low:{form}}-{high})"

    def as_json(self) -> dict[str, Any]:
        return {
            "work": self.work.value,
            "system": self.entry.contestant.title,
            "store": self.entry.contestant.store_title,
            "detail": self.entry.detail,
            "measures": {
                measure.value: [_finite(value) for value in self.series(measure).values]
                for measure in MEASURES[self.work]
            },
        }


def _finite(value: float) -> float | None:
    return None if isinf(value) else float(f"{value:.4g}")
