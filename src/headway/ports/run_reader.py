"""Reads of runs, keys, lanes and instances. Readers change nothing and lock nothing."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headway.core.batch_state import InboxItem, Instance, Interrupt, SavedKey
from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId
from headway.core.lane_row import LaneRow
from headway.core.run.explain import Situation
from headway.core.run.recent import RecentKey
from headway.core.run.run import Claim, Run, RunRecord
from headway.core.run.status import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    statuses: frozenset[RunStatus] = frozenset()
    key: Key | None = None
    lane: LaneName | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True)
class LaneCounts:
    lane: LaneRow
    held_count: int
    queued_count: int
    waiting_count: int
    """The number of running runs that hold no slot, because they wait for something."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All active runs, lanes, keys and instances, as of one instant of the stream (I13)."""

    seq: int
    epoch: int
    """The epoch of `seq`. After a failover the same number may belong to another event."""
    lanes: Sequence[LaneCounts]
    keys: Sequence[SavedKey]
    runs: Sequence[RunRecord]
    """All active runs."""
    last_runs: Sequence[RunRecord]
    """For each saved or recent key, its newest accepted run and its newest started run.

    They are usually the same run, which may be active or ended.
    """
    instances: Sequence[Instance]
    """Instances that were not declared dead."""
    seq_written_at: Instant | None = None
    """When the event `seq` was written, or None if that event does not exist."""
    recent_keys: Sequence[RecentKey] = ()
    """The recent keys, the newest first. They include saved keys and keys with an active run."""
    has_older_keys: bool = False
    """True if there are runs older than those of the recent keys."""


class WatchedRun(NamedTuple):
    """The columns of a run that waiters poll. They may poll thousands of runs at once."""

    run_seq: int
    """The number of events of the run so far."""
    status: RunStatus


class HeldRun(NamedTuple):
    """The columns of a run that its holder polls. It may poll thousands of runs at once."""

    id: RunId
    token: str
    status: RunStatus
    slot: LaneName | None
    unread_count: int

    @property
    def claim(self) -> Claim:
        return Claim(self.id, self.token)


class RunReader(Protocol):
    async def now(self) -> Instant:
        """Return the time of the database's clock, which decides all deadlines."""
        ...

    async def run(self, run_id: RunId) -> RunRecord | None: ...

    def list_runs(
        self, run_filter: RunFilter, *, limit: int, before_seq: int | None = None
    ) -> AsyncIterator[RunRecord]:
        """Yield runs, newest first. Rows are read lazily, so that few are in memory at once.

        For the next page, pass the `seq` of the last run as `before_seq`.
        """
        ...

    async def snapshot(self) -> Snapshot: ...

    async def situation(self, run_id: RunId) -> Situation | None:
        """Return a run and everything it may be waiting for, as of one instant.

        Return None if the run does not exist.
        """
        ...

    async def lanes(self) -> Sequence[LaneCounts]: ...

    async def lane_names(self) -> list[LaneName]: ...

    def keys(self, *, limit: int, after: Key | None = None) -> AsyncIterator[SavedKey]:
        """Yield saved keys sorted by name, beginning after `after`. Rows are read lazily."""
        ...

    async def saved_key(self, key: Key) -> SavedKey | None: ...

    async def inbox(self, run_id: RunId) -> Sequence[InboxItem]: ...

    def messages(
        self, run_id: RunId, *, limit: int, after_seq: int | None = None
    ) -> AsyncIterator[InboxItem]:
        """Yield the messages sent to a run, read or not, in the order of arrival."""
        ...

    async def interrupts(self, run_id: RunId) -> Sequence[Interrupt]:
        """Return the open interrupts of a run, in the order in which they were asked."""
        ...

    async def instances(self) -> Sequence[Instance]: ...

    async def runs_due(self, now: Instant, *, limit: int) -> Sequence[Run]:
        """Return active runs whose next deadline has passed, longest overdue first."""
        ...

    async def held_runs(self, instance_id: InstanceId, *, limit: int) -> Sequence[HeldRun]: ...

    async def filter_held_runs(
        self, instance_id: InstanceId, run_ids: Collection[RunId]
    ) -> Sequence[HeldRun]:
        """Return the runs in `run_ids` that the instance holds, in any order."""
        ...

    async def watched_runs(self, run_ids: Collection[RunId]) -> Mapping[RunId, WatchedRun]:
        """Return the current state of each run. Runs that do not exist are left out."""
        ...

    async def ancestors(self, run_id: RunId, *, limit: int) -> Sequence[Run]:
        """Return the run's parent, grandparent and so on. Stop before the first pruned ancestor."""
        ...

    async def children_to_cancel(self, parent_id: RunId, *, limit: int) -> Sequence[RunId]:
        """Return the parent's active children that have no cancel request yet, oldest first."""
        ...

    async def queued_runs(
        self, lane: LaneName, *, limit: int, before_seq: int | None = None
    ) -> Sequence[Run]:
        """Return the lane's runs that have not started, newest first.

        For the next page, pass the `seq` of the last run as `before_seq`.
        """
        ...

    async def oldest_runs(self, *, after_seq: int, limit: int) -> Sequence[Run]:
        """Return the runs after `after_seq`, in the order of acceptance.

        Runs are pruned in the same order.
        """
        ...

    async def oldest_idempotency_keys(self, *, before: Instant, limit: int) -> Sequence[str]:
        """Return idempotency keys that were used at `before` or earlier, oldest first."""
        ...

    async def count_idempotency_keys(self, *, before: Instant) -> int:
        """Count the idempotency keys that were used at `before` or earlier."""
        ...
