"""Proof that a process on this host has ended, so that its lease need not run out first."""

from collections.abc import Collection
from typing import Protocol


class LifeLock(Protocol):
    """A lock that this process holds until it ends, and checks of other processes' locks.

    A lock counts as held unless its process has certainly ended. While the lock counts as held,
    only the instance's lease decides whether the instance is dead.
    """

    def acquire(self) -> str | None:
        """Acquire this process's lock if needed, and return its name, or None if that fails.

        Every call returns the same name.
        """
        ...

    def is_free(self, name: str) -> bool:
        """Return True only if the process that acquired this lock has certainly ended."""
        ...

    def remove(self, name: str) -> None:
        """Remove a lock that is free. A lock that is held stays."""
        ...

    def remove_stale(self, known: Collection[str]) -> None:
        """Remove the locks of ended processes, except the locks named in `known`.

        `known` contains the names in the database.
        """
        ...
