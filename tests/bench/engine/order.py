"""What a system is asked to do, and what it says about it. A process each, one JSON each way.

Nothing but the standard library: this is imported in the environments of other systems too.
"""

import json
import sys
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path


class Work(StrEnum):
    DRAIN = "w2"
    """Jobs that do nothing, all of them waiting: until the last has ended, durably."""
    PICKUP = "w3"
    """From the call that submits a job to the job's first line, on an idle worker."""
    KEYED = "w4"
    """One at a time per key, in order, a few at a time overall."""
    FLOWS = "w5"
    """Flows of ten steps that do nothing, each durable before the next begins."""
    RECOVERY = "w6"
    """Jobs that run when their process is killed: until all of them run elsewhere."""
    SLEEPERS = "sleepers"
    """Many jobs that sleep: what they weigh, and how late they wake."""
    PARKED = "parked"
    """Tasks of flows that wait: what they cost others, what they weigh, how late they go on."""
    IDLE = "idle"
    """What it costs to have many jobs that cannot start."""
    STARTUP = "startup"
    """From the start of the program to the first line of its first job, beside many finished."""


STEP_COUNT = 10
"""Of a flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    work: Work
    store: str
    """Of a system that can use several: sqlite, postgres or redis."""
    durability: str = ""
    """On SQLite, what a commit survives: `process` or `power`. Servers are set to keep all."""
    url: str = ""
    answer_file: str = ""
    job_count: int = 0
    key_count: int = 1
    concurrent_count: int = 1
    work_s: float = 0.0
    spread_s: float = 0.0
    """Over how long the sleepers wake."""
    watch_s: float = 0.0
    """For how long an idle system is watched."""
    parked_count: int = 0
    """How many tasks are parked when they are weighed."""
    is_apart: bool = False
    """Another process submits."""
    variant: str = ""
    role: str = ""
    """One of several processes of the same measurement."""
    marks_folder: str = ""
    """Where jobs that start leave a file each."""
    ordered_at_s: float = 0.0
    """By the clock that all processes of a machine share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    count: int = 0
    elapsed_s: float = 0.0
    reference_s: float = 0.0
    """What the same took without what is measured."""
    cpu_s: float = 0.0
    """Of the worker's process alone: what a server spends is not in it."""
    times_ms: tuple[float, ...] = ()
    violation_count: int = 0
    """Jobs that began before an earlier one of their key had ended, or above the limit."""
    memory_bytes: int = 0


def received_order() -> Order:
    """The order that this process was started with."""
    fields = json.loads(sys.argv[1])
    return Order(**{**fields, "work": Work(fields["work"])})


def as_argument(order: Order, **changes: object) -> str:
    return json.dumps(asdict(replace(order, **changes)))  # type: ignore[arg-type]


def give_answer(order: Order, answer: Answer) -> None:
    """Into a file: what systems print is their own business."""
    Path(order.answer_file).write_text(json.dumps(asdict(answer)), encoding="utf-8")


def read_answer(path: Path) -> Answer:
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Answer(**{**fields, "times_ms": tuple(fields["times_ms"])})
