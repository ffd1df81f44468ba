"""The order for a system, and its answer: one process each, one JSON document each way.

Nothing but the standard library: this is imported in the environments of other systems too.
"""

import json
import sys
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path


class Work(StrEnum):
    DRAIN = "w2"
    """Queued jobs that do nothing: the time until the last one has ended durably."""
    PICKUP = "w3"
    """From the call that submits a job to the job's first line, on an idle worker."""
    KEYED = "w4"
    """One at a time per key, in order, a few at a time overall."""
    FLOWS = "w5"
    """Flows of ten steps that do nothing, each durable before the next begins."""
    RECOVERY = "w6"
    """Jobs that run when their process is killed: the time until all of them run elsewhere."""
    SLEEPERS = "sleepers"
    """Many jobs that sleep: their memory, and how late they wake."""
    PARKED = "parked"
    """Tasks of flows that wait: their cost for others, their memory, and how late they resume."""
    IDLE = "idle"
    """The cost of many jobs that cannot start."""
    STARTUP = "startup"
    """From the start of the program to the first line of its first job, beside many finished."""


STEP_COUNT = 10
"""The number of steps of a flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    work: Work
    store: str
    """The store of a system that supports several: sqlite, postgres or redis."""
    durability: str = ""
    """The failure that a commit survives on SQLite: `process` or `power`. Servers survive both."""
    url: str = ""
    answer_file: str = ""
    job_count: int = 0
    key_count: int = 1
    concurrent_count: int = 1
    work_s: float = 0.0
    spread_s: float = 0.0
    """The period over which the sleepers wake."""
    watch_s: float = 0.0
    """How long an idle system is observed."""
    parked_count: int = 0
    """How many tasks are parked when memory is measured."""
    is_apart: bool = False
    """True if another process submits."""
    variant: str = ""
    role: str = ""
    """The role of this process, if a measurement has several."""
    marks_folder: str = ""
    """The folder in which each started job leaves a file."""
    ordered_at_s: float = 0.0
    """An instant by the clock that all processes of a machine share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    count: int = 0
    elapsed_s: float = 0.0
    reference_s: float = 0.0
    """The time of the same work without the measured effect."""
    cpu_s: float = 0.0
    """CPU time of the worker's process alone, without that of a server."""
    times_ms: tuple[float, ...] = ()
    violation_count: int = 0
    """Jobs that began before an earlier one of their key had ended, or above the limit."""
    memory_bytes: int = 0


def received_order() -> Order:
    """Return the order that this process was started with."""
    fields = json.loads(sys.argv[1])
    return Order(**{**fields, "work": Work(fields["work"])})


def as_argument(order: Order, **changes: object) -> str:
    return json.dumps(asdict(replace(order, **changes)))  # type: ignore[arg-type]


def give_answer(order: Order, answer: Answer) -> None:
    """Write the answer into a file, because systems print text of their own."""
    Path(order.answer_file).write_text(json.dumps(asdict(answer)), encoding="utf-8")


def read_answer(path: Path) -> Answer:
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Answer(**{**fields, "times_ms": tuple(fields["times_ms"])})
