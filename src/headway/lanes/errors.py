"""The errors that lanes raise.

LaneError
├── InvalidWork     an argument of the call is invalid; also a ValueError
├── LaneCleared     the lane was cleared while the task waited; the task never started
├── LanesDraining   the lanes accept no new work, because the program is about to exit
├── TaskTimedOut    the task ran for longer than its timeout; also a TimeoutError
└── InvalidLimits   the limits are invalid and none was applied; also a ValueError

They are separate from the errors of `headway.core`, so that the lanes can be used without the rest
of headway. An error that a task itself raises reaches its caller unchanged.
"""

from collections.abc import Sequence


class LaneError(Exception):
    """The base class of all errors that lanes raise. All of them can be copied and pickled."""


class InvalidWork(LaneError, ValueError):
    """An argument of the call is invalid. Nothing was queued or run."""


class LaneCleared(LaneError):
    def __init__(self, lane: str) -> None:
        super().__init__(lane)
        self.lane = lane

    def __str__(self) -> str:
        return f"lane {self.lane!r} was cleared before this task started"


class LanesDraining(LaneError):
    def __init__(self, lane: str) -> None:
        super().__init__(lane)
        self.lane = lane

    def __str__(self) -> str:
        return f"lane {self.lane!r} accepts no new work: the lanes are draining"


class TaskTimedOut(LaneError, TimeoutError):
    def __init__(self, lane: str, timeout_s: float, is_still_running: bool) -> None:
        super().__init__(lane, timeout_s, is_still_running)
        self.lane = lane
        self.timeout_s = timeout_s
        self.is_still_running = is_still_running
        """True if the task ignored its cancellation and still runs. Its slot is free again."""

    def __str__(self) -> str:
        end = "and ignored its cancellation" if self.is_still_running else "and was canceled"
        return f"a task in lane {self.lane!r} took longer than {self.timeout_s:g} s {end}"


class InvalidLimits(LaneError, ValueError):
    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "; ".join(self.problems)
