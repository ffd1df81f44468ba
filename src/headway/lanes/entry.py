"""One piece of work in a lane, and the views of it that callers receive."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, NewType

TaskId = NewType("TaskId", int)
"""The number of a task, counted over all lanes. Earlier arrivals have lower numbers."""

WARN_AFTER_S: Final = 2.0


class Priority(IntEnum):
    FOREGROUND = 0
    """A person is waiting for the result."""
    NORMAL = 1
    BACKGROUND = 2


class ActiveTask(NamedTuple):
    task_id: TaskId
    name: str
    active_s: float


OnWait = Callable[[float, int, tuple[ActiveTask, ...]], object]
"""The callback for a long wait, called as `on_wait(waited_s, ahead_count, active)`."""


class WaitReport(NamedTuple):
    """A long wait: its duration, the number of tasks ahead, and the tasks that are active."""

    waited_s: float
    ahead_count: int
    """The number of tasks that would start earlier if no other task arrived."""
    active: tuple[ActiveTask, ...]


class LaneView(NamedTuple):
    """The limit, the generation and the tasks of a lane at one moment."""

    name: str
    max_concurrent: int
    generation: int
    waiting: tuple[TaskId, ...]
    """The waiting tasks in the order of arrival. Priorities decide which of them starts first."""
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
    """The generation of the lane when this task started, or None if it has not started."""
