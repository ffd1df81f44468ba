"""Whether anything was written for what goes on in this context.

A request that fails half-way has to know: whoever asked is told that nothing was changed only when
that is so.
"""

from contextvars import ContextVar
from typing import Final


class _Note:
    """Shared with the tasks that are begun in the context, which write for it too."""

    __slots__ = ("is_written",)

    def __init__(self) -> None:
        self.is_written = False


_note: Final[ContextVar[_Note | None]] = ContextVar("written", default=None)


def begin_note() -> None:
    """From here on it is about something new."""
    _note.set(_Note())


def note_written() -> None:
    """A write was answered: whatever comes now, it stands."""
    note = _note.get()
    if note is not None:
        note.is_written = True


def is_written() -> bool:
    note = _note.get()
    return note is not None and note.is_written
