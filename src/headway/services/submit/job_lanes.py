"""The lanes of jobs that have a limit of their own."""

from collections.abc import Iterable

from headway.core.command.admin.set_lane import ProposeLimit
from headway.ports.store import Store
from headway.services.submit.job import Job


class OwnLanes:
    """Proposes each job's limit once in the life of a process, before its first run."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._prepared: set[str] = set()

    async def prepare(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.concurrency is not None and job.name not in self._prepared:
                await self._store.apply(ProposeLimit(job.lane, job.concurrency))
                self._prepared.add(job.name)
