"""One piece of work in a lane, and what is told about it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, NewType

TaskId = NewType("TaskId", int)
"""A number that rises with every arrival, over all lanes: it settles ties, a clock never does."""

WARN_AFTER_S: Final = 2.0


class Priority(IntEnum):
    FOREGROUND = 0
    """Somebody sits and waits for it."""
    NORMAL = 1
    BACKGROUND = 2


class ActiveTask(NamedTuple):
    task_id: TaskId
    name: str
    active_s: float


OnWait = Callable[[float, int, tuple[ActiveTask, ...]], object]
"""Called as `on_wait(waited_s, ahead_count, active)`."""


class WaitReport(NamedTuple):
    """Somebody has waited for long: for how long, behind how many, and for whom."""

    waited_s: float
    ahead_count: int
    """Those who would start before it, if nobody else came."""
    active: tuple[ActiveTask, ...]


class LaneView(NamedTuple):
    """A lane at one moment."""

    name: str
    max_concurrent: int
    generation: int
    waiting: tuple[TaskId, ...]
    """In the order of their arrival; priorities decide who starts first."""
    active: tuple[TaskId, ...]

    @property
    def size(self) -> int:
        return len(self.waiting) + len(self.active)


@dataclass(slots=True, eq=False, kw_only=True)
class Entry:
    task_id: TaskId
    lane: str
    enqueued_s: float
    name: str = ""
    priority: Priority = Priority.NORMAL
    warn_after_s: float = WARN_AFTER_S
    on_wait: OnWait | None = None
    has_warned: bool = False
    started_s: float = 0.0
    generation: int | None = None
    """The lane's when this one started; None before."""
