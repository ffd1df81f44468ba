"""Clear a lane: what waits in it and has never started is cancelled; what is active goes on."""

from dataclasses import dataclass
from typing import Final

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.cancel import RequestCancel, cancel_run
from headway.core.command.run.notify_parent import notify_parent
from headway.core.ids import LaneName, RunId
from headway.core.run.status import RunStatus

CLEAR_COUNT_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class ClearRuns:
    """Cancel those of `run_ids` that still wait in `lane`; one that has started is left alone."""

    run_ids: tuple[RunId, ...]
    lane: LaneName
    by: str = ""

    def __post_init__(self) -> None:
        assert len(self.run_ids) <= CLEAR_COUNT_MAX
        for run_id in self.run_ids[:1]:  # Refused here, and not in the middle of a batch.
            self._make_request(run_id)

    def need(self, needs: RowsNeeded) -> None:
        for run_id in self.run_ids:
            needs.add_ending_run(run_id)

    def decide(self, world: BatchState) -> int:
        """How many were cancelled."""
        count = 0
        for run_id in self.run_ids:
            run = world.run(run_id)
            if run is None or run.status is not RunStatus.QUEUED or run.lane != self.lane:
                continue
            cancel_run(world, run, self._make_request(run_id))
            notify_parent(world, run_id)
            count += 1
        return count

    def _make_request(self, run_id: RunId) -> RequestCancel:
        reason = f"lane {self.lane!r} was cleared before this run started"
        return RequestCancel(run_id=run_id, reason=reason, by=self.by)
