"""The registry of workers, as it can be read."""

from collections.abc import Sequence
from typing import Protocol

from headway.core.worker.worker import LiveWorker


class WorkerReader(Protocol):
    async def workers(self) -> Sequence[LiveWorker]:
        """All that have registered, by id, whether or not they live."""
        ...
