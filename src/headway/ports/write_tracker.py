"""Track whether anything was written on behalf of the current context.

An HTTP request that fails half-way needs this: its error response states that nothing was changed
only if no write was committed for it.
"""

from contextvars import ContextVar
from typing import Final


class _WriteFlag:
    """A flag that a request shares with the tasks it starts, because they write for it too."""

    __slots__ = ("is_written",)

    def __init__(self) -> None:
        self.is_written = False


_write_flag: Final[ContextVar[_WriteFlag | None]] = ContextVar("write_flag", default=None)


def begin_tracking() -> None:
    """Start to track the writes of a new request. No write is recorded yet."""
    _write_flag.set(_WriteFlag())


def note_written() -> None:
    """Record that a write was committed. It stays committed, even if the request fails later."""
    flag = _write_flag.get()
    if flag is not None:
        flag.is_written = True


def is_written() -> bool:
    """Return whether a write was committed since `begin_tracking`."""
    flag = _write_flag.get()
    return flag is not None and flag.is_written
