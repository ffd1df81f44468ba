"""Whether anything was written for what goes on in this context.

A request that fails half-way has to know: whoever asked is told that nothing was changed only when
that is so.
"""

from contextvars import ContextVar
from typing import Final


class _WriteFlag:
    """Shared with the tasks that are begun in the context, which write for it too."""

    __slots__ = ("is_written",)

    def __init__(self) -> None:
        self.is_written = False


_write_flag: Final[ContextVar[_WriteFlag | None]] = ContextVar("written", default=None)


def begin_tracking() -> None:
    """From here on it is about something new."""
    _write_flag.set(_WriteFlag())


def note_written() -> None:
    """A write was answered: whatever comes now, it stands."""
    note = _write_flag.get()
    if note is not None:
        note.is_written = True


def is_written() -> bool:
    note = _write_flag.get()
    return note is not None and note.is_written
