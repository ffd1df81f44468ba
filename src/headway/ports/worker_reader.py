"""The registry of workers, as it can be read."""

from collections.abc import Sequence
from typing import Protocol

from headway.core.ids import Instant
from headway.core.worker.saved_worker import LiveWorker


class WorkerReader(Protocol):
    async def workers(self, *, heartbeat_since: Instant) -> Sequence[LiveWorker]:
        """Those that were heard of then or later, by id; of very many the last heard of."""
        ...

    async def stale_workers(self, *, heartbeat_before: Instant, limit: int) -> Sequence[str]:
        """Ids of those that were only heard of earlier, the longest silent first."""
        ...

    async def count_stale_workers(self, *, heartbeat_before: Instant) -> int: ...
