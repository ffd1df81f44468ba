"""A life lock for tests. It never reports that a process has ended, so leases decide."""

from collections.abc import Collection
from typing import Final


class _NoLocks:
    def acquire(self) -> str | None:
        return None

    def is_free(self, name: str) -> bool:  # noqa: ARG002
        return False

    def remove(self, name: str) -> None: ...

    def remove_stale(self, known: Collection[str]) -> None: ...


NO_LOCKS: Final = _NoLocks()
