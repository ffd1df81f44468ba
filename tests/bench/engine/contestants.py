"""The contestants, their disciplines, and their settings."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tests.bench.engine.order import Order, Work

OURS: Final = "headway"
STORES: Final[Mapping[str, str]] = {
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "redis": "Redis",
}
KEY_COUNT: Final = 1_000
KEYED_CONCURRENT_COUNT: Final = 50
KEYED_WORK_S: Final = 0.001
RECOVERED_COUNT: Final = 100
SLEEPER_COUNT: Final = 10_000
BLOCKED_COUNT: Final = 10_000
BEHIND_ONE_KEY: Final = "behind one key"
IN_A_PAUSED_LANE: Final = "in a paused lane"
OF_FUNCTIONS: Final = "functions"
OF_WORKERS: Final = "a worker over HTTP"
OF_CHILDREN: Final = "a list of 2,000, a child task each"
CHILD_COUNT: Final = 2_000
REMOTE_SHARE: Final = 0.3
"""The number of flows in which each step goes to a worker."""
PARKED_COUNT: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    rounds: Mapping[Work, int]
    job_share: float
    """The least share of the jobs, in disciplines that do not become easier with fewer."""
    spread_s: float
    """The period over which the sleepers wake."""
    watch_s: float
    """How long an idle engine is observed."""
    finished_count: int
    parked_count: int
    """How many parked tasks are measured for memory."""


FULL: Final = Scale(
    rounds={
        Work.DRAIN: 3,
        Work.PICKUP: 3,
        Work.KEYED: 3,
        Work.FLOWS: 3,
        Work.RECOVERY: 3,
        Work.SLEEPERS: 1,
        Work.PARKED: 1,
        Work.IDLE: 1,
        Work.STARTUP: 5,
    },
    job_share=1.0,
    spread_s=60.0,
    watch_s=20.0,
    finished_count=1_000_000,
    parked_count=100_000,
)
QUICK: Final = Scale(
    rounds=dict.fromkeys(Work, 1) | {Work.DRAIN: 3, Work.PICKUP: 2, Work.KEYED: 2},
    job_share=0.4,
    spread_s=20.0,
    watch_s=5.0,
    finished_count=50_000,
    parked_count=15_000,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contestant:
    """One system on one kind of store."""

    system: str
    """Its module, and the name of its environment."""
    title: str
    store: str
    durability: str = ""
    """The failure that a commit survives on SQLite: `process` or `power`."""
    concurrent_count: int = 100
    """How many jobs run at once, unless the discipline specifies it; chosen by hand."""
    job_counts: Mapping[Work, int] = field(default_factory=dict)
    """Its disciplines, each with a number of jobs that takes a few seconds."""
    is_restarted: bool = False
    """True if only a restart under the same name resumes its jobs after a kill."""

    @property
    def is_ours(self) -> bool:
        return self.system == OURS

    @property
    def store_title(self) -> str:
        title = STORES[self.store]
        return f"{title} ({self.durability})" if self.durability else title


OUR_JOB_COUNTS: Final[Mapping[Work, int]] = {
    Work.DRAIN: 8_000,
    Work.PICKUP: 200,
    Work.KEYED: 5_000,
    Work.FLOWS: 1_000,
    Work.RECOVERY: RECOVERED_COUNT,
    Work.SLEEPERS: SLEEPER_COUNT,
    Work.PARKED: PARKED_COUNT,
    Work.IDLE: BLOCKED_COUNT,
    Work.STARTUP: 1,
}
CONTESTANTS: Final = (
    Contestant(
        system=OURS, title=OURS, store="sqlite", durability="process", job_counts=OUR_JOB_COUNTS
    ),
    Contestant(
        system=OURS,
        title=OURS,
        store="sqlite",
        durability="power",
        job_counts={Work.DRAIN: 8_000, Work.FLOWS: 1_000},
    ),
    Contestant(system=OURS, title=OURS, store="postgres", job_counts=OUR_JOB_COUNTS),
    Contestant(
        system="huey",
        title="Huey",
        store="sqlite",
        durability="process",
        concurrent_count=1,
        job_counts={Work.DRAIN: 3_000, Work.PICKUP: 200},
    ),
    Contestant(
        system="huey",
        title="Huey",
        store="sqlite",
        durability="power",
        concurrent_count=1,
        job_counts={Work.DRAIN: 2_000},
    ),
    Contestant(
        system="dbos",
        title="DBOS",
        store="sqlite",
        durability="power",
        job_counts={
            Work.DRAIN: 600,
            Work.PICKUP: 100,
            Work.KEYED: 300,
            Work.FLOWS: 100,
            Work.RECOVERY: RECOVERED_COUNT,
        },
        is_restarted=True,
    ),
    Contestant(
        system="pgqueuer",
        title="PgQueuer",
        store="postgres",
        concurrent_count=500,
        job_counts={Work.DRAIN: 20_000, Work.PICKUP: 200, Work.RECOVERY: RECOVERED_COUNT},
    ),
    Contestant(
        system="procrastinate",
        title="Procrastinate",
        store="postgres",
        concurrent_count=50,
        job_counts={
            Work.DRAIN: 2_000,
            Work.PICKUP: 200,
            Work.KEYED: 2_000,
            Work.RECOVERY: RECOVERED_COUNT,
        },
    ),
    Contestant(
        system="dbos",
        title="DBOS",
        store="postgres",
        job_counts={
            Work.DRAIN: 600,
            Work.PICKUP: 100,
            Work.KEYED: 300,
            Work.FLOWS: 100,
            Work.RECOVERY: RECOVERED_COUNT,
        },
        is_restarted=True,
    ),
    Contestant(
        system="saq",
        title="SAQ",
        store="redis",
        job_counts={Work.DRAIN: 3_000, Work.PICKUP: 200},
    ),
    Contestant(
        system="arq",
        title="arq",
        store="redis",
        job_counts={Work.DRAIN: 3_000, Work.PICKUP: 200},
    ),
    Contestant(
        system="rq",
        title="RQ",
        store="redis",
        concurrent_count=1,
        job_counts={Work.DRAIN: 2_000},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A contestant in one discipline."""

    contestant: Contestant
    order: Order
    detail: str = ""

    @property
    def title(self) -> str:
        text = f"{self.contestant.title}, {self.contestant.store_title}"
        return f"{text}, {self.detail}" if self.detail else text


def entries_of(
    work: Work, *, stores: Collection[str], is_ours_alone: bool, scale: Scale
) -> Iterator[Entry]:
    for contestant in CONTESTANTS:
        is_asked = contestant.store in stores and (contestant.is_ours or not is_ours_alone)
        if is_asked and work in contestant.job_counts:
            for detail, order in _orders(work, contestant, scale):
                yield Entry(contestant=contestant, order=order, detail=detail)


def _orders(work: Work, contestant: Contestant, scale: Scale) -> Iterator[tuple[str, Order]]:
    order = Order(
        work=work,
        store=contestant.store,
        durability=contestant.durability,
        job_count=contestant.job_counts[work],
        concurrent_count=contestant.concurrent_count,
    )
    fewer = replace(order, job_count=max(50, round(order.job_count * scale.job_share)))
    match work:
        case Work.DRAIN:
            yield "", fewer
        case Work.PICKUP:
            yield "", fewer
            if contestant.is_ours and contestant.store == "postgres":
                yield "submitted by another process", replace(fewer, is_apart=True)
        case Work.KEYED:
            yield (
                "",
                replace(
                    fewer,
                    key_count=KEY_COUNT,
                    concurrent_count=KEYED_CONCURRENT_COUNT,
                    work_s=KEYED_WORK_S,
                ),
            )
        case Work.FLOWS:
            yield from _flow_orders(contestant, fewer)
        case Work.PARKED:
            yield (
                "",
                replace(order, spread_s=scale.spread_s, parked_count=scale.parked_count),
            )
        case Work.SLEEPERS:
            yield "", replace(order, concurrent_count=SLEEPER_COUNT, spread_s=scale.spread_s)
        case Work.IDLE:
            for variant in (BEHIND_ONE_KEY, IN_A_PAUSED_LANE):
                yield variant, replace(order, variant=variant, watch_s=scale.watch_s)
        case _:
            yield "", order


def _flow_orders(contestant: Contestant, order: Order) -> Iterator[tuple[str, Order]]:
    yield OF_FUNCTIONS, replace(order, variant=OF_FUNCTIONS)
    if contestant.is_ours and contestant.durability != "power":
        fewer = round(order.job_count * REMOTE_SHARE)
        yield OF_WORKERS, replace(order, variant=OF_WORKERS, job_count=fewer)
        yield OF_CHILDREN, replace(order, variant=OF_CHILDREN, job_count=CHILD_COUNT)
