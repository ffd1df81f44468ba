"""The lanes of jobs that have a limit of their own."""

from collections.abc import Iterable

from headway.core.command.admin.set_lane import ProposeLimit
from headway.ports.store import Store
from headway.services.submit.job import Job


class JobLanes:
    """Proposes each job's limit once in the life of a process, before its first run."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._proposed_jobs: set[str] = set()

    async def propose_limits(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.concurrency is not None and job.name not in self._proposed_jobs:
                await self._store.apply(ProposeLimit(job.lane, job.concurrency))
                self._proposed_jobs.add(job.name)
