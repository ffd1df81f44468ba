"""Lanes, as people see, set, clear and await them."""

from collections.abc import Awaitable, Callable, Sequence

from headway.core.command.admin.clear_lane import CLEAR_COUNT_MAX, ClearRuns
from headway.core.command.admin.set_lane import SetLane
from headway.core.command.protocol import RevisionMismatch
from headway.core.document import check_name
from headway.core.errors import RevisionConflict
from headway.core.ids import LaneName
from headway.core.lane_row import LaneRow
from headway.ports.run_reader import LaneCounts, RunReader
from headway.ports.store import Store


class LaneSettings:
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
        """Every lane with its limits, and how many runs hold a slot or wait in it."""
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
        """Change what is given; `max_queued=-1` lifts that limit.

        A raised limit is used at once. A lowered one interrupts nobody: fewer start until it holds.
        RevisionConflict: somebody has changed the lane since that revision was read.
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
        """Cancel all runs that wait in the lane and have never started; how many.

        What is active goes on. What comes while this is under way stays.
        """
        lane = LaneName(check_name(name, field="lane"))
        count, before_seq = 0, None
        # Newest first: no end in here makes another run ready that is yet to be cleared.
        while page := await self._reader.queued_runs(
            lane, before_seq=before_seq, limit=CLEAR_COUNT_MAX
        ):
            run_ids = tuple(run.id for run in page)
            count += await self._store.apply(ClearRuns(run_ids, lane, by))
            before_seq = page[-1].seq
        return count

    async def wait_for_active(self, timeout_s: float) -> bool:
        """Whether all that this process executes now, in any lane, has ended in time.

        Before a shutdown; it never raises. What starts meanwhile is not waited for, and what other
        processes execute neither.
        """
        return await self._wait_for_active(timeout_s)
