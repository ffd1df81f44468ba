"""Proof that a process of this host is dead, so that nobody waits for its lease."""

from collections.abc import Collection
from typing import Protocol


class LifeLock(Protocol):
    """A lock that this process holds until it ends, and a look at those of its neighbours.

    What cannot be proven is denied: then the lease decides.
    """

    def acquire(self) -> str | None:
        """Hold the lock from now on; its name, the same at every call, or None: it has none."""
        ...

    def is_free(self, name: str) -> bool:
        """True only when the process that took the lock of this name has certainly ended."""
        ...

    def remove(self, name: str) -> None:
        """Leave no trace of a lock that is free, and keep one that is not."""
        ...

    def remove_stale(self, known: Collection[str]) -> None:
        """Remove what dead processes have left behind, but for those `known` to the database."""
        ...
