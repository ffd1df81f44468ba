"""The measurements, their durations, and their goals."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headway.adapters.sql.connect.sqlite import Durability


class What(StrEnum):
    SUBMITS = "submits"
    CLAIMS = "claims"
    CYCLES = "cycles"
    """Submit, claim and succeed, each with its event."""
    LATENCY = "latency"
    """A single caller on an idle store, from the call to the commit."""
    GROWTH = "growth"
    """Life cycles beside many finished runs, and beside few."""


RATES: Final = (What.SUBMITS, What.CLAIMS, What.CYCLES)


class Side(StrEnum):
    RAW = "raw"
    HEADWAY = "headway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    duration_s: float
    callers: tuple[int, ...]
    rounds: int
    cycle_rounds: int
    """The measurement that must reach a share of the driver's rate."""
    latency_count: int
    backlog_count_max: int
    """Runs that wait to be claimed when the claims begin."""
    finished_count: int
    """Runs that have ended already, in the measurement of growth."""
    profile_rounds: int
    """Profiled life cycles per caller."""

    def rounds_of(self, what: What) -> int:
        return self.rounds if what in (What.SUBMITS, What.CLAIMS) else self.cycle_rounds

    def backlog_of(self, callers: int) -> int:
        return min(self.backlog_count_max, 3_000 + 100 * callers)


FULL: Final = Scale(
    duration_s=1.5,
    callers=(1, 100, 1_000),
    rounds=3,
    cycle_rounds=5,
    latency_count=500,
    backlog_count_max=30_000,
    finished_count=1_000_000,
    profile_rounds=20,
)
QUICK: Final = Scale(
    duration_s=0.6,
    callers=(1, 1_000),
    rounds=1,
    cycle_rounds=3,
    latency_count=200,
    backlog_count_max=10_000,
    finished_count=50_000,
    profile_rounds=5,
)

FEW_FINISHED_COUNT: Final = 1_000
FILL_COUNT: Final = 50_000
"""How many finished runs one process adds, so that progress is shown."""
GROWTH_CALLERS: Final = 1_000
GROWTH_KEY_COUNTS: Final = (None, 10_000)
GROWTH_BACKENDS: Final = ("sqlite-process", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One measurement, for a process of its own."""

    what: What
    side: Side
    url: str
    durability: Durability
    callers: int = 1
    duration_s: float = 0.0
    latency_count: int = 0
    backlog_count: int = 0
    finished_count: int = 0
    """The number of finished runs to create for growth on the raw side; nothing is measured."""
    key_count: int | None = None
    """How many keys are used in turn. None means that each run has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    count: int
    elapsed_s: float
    cpu_s: float
    """CPU time of this process alone, without that of a server."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0

    @property
    def rate(self) -> float:
        return self.count / self.elapsed_s


RATIO_MIN: Final = 0.25
RATIO_AIM: Final = 0.40
RATIO_CALLERS: Final = 1_000
RATIO_BACKENDS: Final = ("sqlite-process", "sqlite-power", "postgres")
LATENCY_BACKEND: Final = "sqlite-process"
LATENCY_MS_MAX: Final = 1.0
GROWTH_RATIO_MIN: Final = 0.8
