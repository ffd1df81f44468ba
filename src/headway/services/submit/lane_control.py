"""List, configure and clear lanes, and propose the limits that jobs declare."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from headway.core.command.admin.lane_limits import CLEAR_COUNT_MAX, ClearRuns, ProposeLimit, SetLane
from headway.core.command.protocol import RevisionMismatch
from headway.core.document import check_name
from headway.core.errors import RevisionConflict
from headway.core.ids import LaneName
from headway.core.lane_row import LaneRow
from headway.ports.run_reader import LaneCounts, RunReader
from headway.ports.store import Store
from headway.services.submit.job import Job


class JobLanes:
    """Stores the limit that a job declares for its own lane, once per process.

    A limit set by a person or in the configuration takes precedence.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._proposed_jobs: set[str] = set()

    async def propose_limits(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.concurrency is not None and job.name not in self._proposed_jobs:
                await self._store.apply(ProposeLimit(job.lane, job.concurrency))
                self._proposed_jobs.add(job.name)


class LaneSettings:
    """Lists, changes and clears the lanes of a database. Available as `Headway.lanes`."""

    def __init__(
        self,
        store: Store,
        reader: RunReader,
        wait_for_active: Callable[[float], Awaitable[bool]],
    ) -> None:
        self._store = store
        self._reader = reader
        self._wait_for_active = wait_for_active

    async def list(self) -> Sequence[LaneCounts]:
        """Return each lane with its limits and its numbers of running and waiting runs."""
        return await self._reader.lanes()

    async def set(
        self,
        name: str,
        *,
        max_concurrent: int | None = None,
        max_queued: int | None = None,
        is_paused: bool | None = None,
        expected_revision: int | None = None,
        by: str = "",
    ) -> LaneRow:
        """Change the settings of a lane. A setting whose argument is None stays unchanged.

        `max_queued=-1` removes the limit on queued runs. A raised limit takes effect at once. A
        lowered limit interrupts no run; further runs start only when fewer runs than the limit are
        active. Raise RevisionConflict if the lane was changed since `expected_revision` was read.
        """
        answer = await self._store.apply(
            SetLane(
                name=LaneName(name),
                max_concurrent=max_concurrent,
                max_queued=max_queued,
                is_paused=is_paused,
                expected_revision=expected_revision,
                by=by,
            )
        )
        if isinstance(answer, RevisionMismatch):
            raise RevisionConflict(f"lane {name!r}", answer.revision)
        return answer

    async def clear(self, name: str, *, by: str = "") -> int:
        """Cancel all runs in the lane's queue that have never started, and return how many.

        Active runs continue. Runs that are submitted during the call stay queued.
        """
        lane = LaneName(check_name(name, field="lane"))
        count, before_seq = 0, None
        # Newest first, so that no cancel makes a run ready that is to be cleared later.
        while page := await self._reader.queued_runs(
            lane, before_seq=before_seq, limit=CLEAR_COUNT_MAX
        ):
            run_ids = tuple(run.id for run in page)
            count += await self._store.apply(ClearRuns(run_ids, lane, by))
            before_seq = page[-1].seq
        return count

    async def wait_for_active(self, timeout_s: float) -> bool:
        """Wait for the runs that this process executes now, in any lane, before a shutdown.

        Return whether all of them ended within `timeout_s`. This method never raises. Runs that
        start during the wait, and runs of other processes, are not waited for.
        """
        return await self._wait_for_active(timeout_s)
