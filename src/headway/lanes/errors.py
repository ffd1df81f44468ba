"""What the lanes may raise.

LaneError
├── InvalidWork     what was asked of a lane cannot be; also a ValueError
├── LaneCleared     it waited in a lane that somebody cleared; it never started
├── LanesDraining   the lanes take no new work: the program is about to end
├── TaskTimedOut    it worked for longer than it may; also a TimeoutError
└── InvalidLimits   a configuration of which nothing was applied; also a ValueError

They stand apart from the errors of `headway.core`: whoever uses the lanes needs nothing else of
headway. What a task itself raises reaches its caller as it is.
"""

from collections.abc import Sequence


class LaneError(Exception):
    """The root of the lanes' own errors. They can be copied and pickled."""


class InvalidWork(LaneError, ValueError):
    """What a caller gave to a lane cannot be; nothing of it was done."""


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
        return f"lane {self.lane!r} takes no new work: the lanes are draining"


class TaskTimedOut(LaneError, TimeoutError):
    def __init__(self, lane: str, timeout_s: float, is_still_running: bool) -> None:
        super().__init__(lane, timeout_s, is_still_running)
        self.lane = lane
        self.timeout_s = timeout_s
        self.is_still_running = is_still_running
        """It did not heed the cancel. Its lane is free; the task itself is beyond our power."""

    def __str__(self) -> str:
        end = "and will not stop" if self.is_still_running else "and was cancelled"
        return f"a task of lane {self.lane!r} took longer than {self.timeout_s:g} s {end}"


class InvalidLimits(LaneError, ValueError):
    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "; ".join(self.problems)
