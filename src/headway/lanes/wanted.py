"""What a caller may ask of a lane. A mistake is told before it stands in any queue."""

import math
from inspect import iscoroutine

from headway.lanes.entry import Priority
from headway.lanes.errors import InvalidWork


def check_work_arguments(
    work: object,
    lane: object,
    priority: object,
    warn_after_s: object,
    on_wait: object,
    *,
    timeout_s: object,
) -> None:
    """InvalidWork: one sentence about the first thing that is wrong."""
    if not callable(work):
        if iscoroutine(work):
            work.close()  # It will never be awaited, and Python need not complain about that too.
        hint = "such as `lambda: ask(message)`, not what it returns"
        raise InvalidWork(f"work must be a function that gives an awaitable, {hint}")
    if lane is not None and not isinstance(lane, str):
        raise InvalidWork("lane must be text, or None for the main lane")
    if not isinstance(priority, Priority):
        names = ", ".join(f"Priority.{one.name}" for one in Priority)
        raise InvalidWork(f"priority must be one of {names}, not {priority!r}")
    if on_wait is not None and not callable(on_wait):
        raise InvalidWork("on_wait must be a function, or None")
    _check_seconds("warn_after_s", warn_after_s)
    if timeout_s is not None:
        _check_seconds("timeout_s", timeout_s)


def _check_seconds(place: str, seconds: object) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or math.isnan(seconds) or seconds < 0:  # type: ignore[arg-type, operator]
        raise InvalidWork(f"{place} must be a number of seconds, 0 or more, not {seconds!r}")
