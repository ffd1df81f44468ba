"""Jobs: registered functions, and where their runs go."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from headway.core.ids import LaneName

JobFunction = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    function: JobFunction
    lane: LaneName
    timeout_s: float | None
