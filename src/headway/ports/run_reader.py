"""What can be read of runs, keys, lanes and instances. Readers change nothing and lock nothing."""

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
    """Runs that are running without a slot: they wait for something."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is going on, as of one instant of the stream (I13)."""

    seq: int
    epoch: int
    """Of which `seq` is: after a failover numbers may stand for other events."""
    lanes: Sequence[LaneCounts]
    keys: Sequence[SavedKey]
    runs: Sequence[RunRecord]
    """The active ones."""
    last_runs: Sequence[RunRecord]
    """The newest run of each saved or recent key that was not refused, and the newest that began.

    They are usually the same run. It may be active or ended.
    """
    instances: Sequence[Instance]
    """Those that nobody has declared dead."""
    seq_written_at: Instant | None = None
    """When the event `seq` was written, or None if there is no such event (any more)."""
    recent_keys: Sequence[RecentKey] = ()
    """The recent keys, the newest first. They include saved keys and keys with an active run."""
    has_older_keys: bool = False
    """Whether there are older runs than those of the recent keys."""


class HeldRun(NamedTuple):
    """What its holder asks of a run again and again, of thousands at once."""

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
        """What time it is in the database, by whose clock everything there is judged."""
        ...

    async def run(self, run_id: RunId) -> RunRecord | None: ...

    def list_runs(
        self, wanted: RunFilter, *, limit: int, before_seq: int | None = None
    ) -> AsyncIterator[RunRecord]:
        """Newest first, each read when its turn is near, so that few are held at once.

        The last one's `seq` is where the next page begins.
        """
        ...

    async def snapshot(self) -> Snapshot: ...

    async def situation(self, run_id: RunId) -> Situation | None:
        """The run and what it may be waiting for, as of one instant; None: there is no such run."""
        ...

    async def lanes(self) -> Sequence[LaneCounts]: ...

    async def lane_names(self) -> list[LaneName]: ...

    def keys(self, *, limit: int, after: Key | None = None) -> AsyncIterator[SavedKey]:
        """By key, from the one after `after` on, each read when its turn is near."""
        ...

    async def saved_key(self, key: Key) -> SavedKey | None: ...

    async def inbox(self, run_id: RunId) -> Sequence[InboxItem]: ...

    def messages(
        self, run_id: RunId, *, limit: int, after_seq: int | None = None
    ) -> AsyncIterator[InboxItem]:
        """Yield the messages sent to a run, read or not, in the order of arrival."""
        ...

    async def interrupts(self, run_id: RunId) -> Sequence[Interrupt]:
        """What its job asks people now and nobody has answered, in order."""
        ...

    async def instances(self) -> Sequence[Instance]: ...

    async def runs_due(self, now: Instant, *, limit: int) -> Sequence[Run]:
        """Active runs whose next deadline has passed, the longest overdue first."""
        ...

    async def runs_held_by(self, instance_id: InstanceId, *, limit: int) -> Sequence[HeldRun]: ...

    async def filter_held_runs(
        self, instance_id: InstanceId, run_ids: Collection[RunId]
    ) -> Sequence[HeldRun]:
        """Those of `run_ids` that the instance holds, in any order."""
        ...

    async def run_seqs(self, run_ids: Collection[RunId]) -> Mapping[RunId, int]:
        """How many events each has had; runs that are not there are left out."""
        ...

    async def ancestors(self, run_id: RunId, *, limit: int) -> Sequence[Run]:
        """Its parent, the parent's parent and so on, as far as they are still there."""
        ...

    async def children_to_cancel(self, parent_id: RunId, *, limit: int) -> Sequence[RunId]:
        """Its active children that nobody has asked to end yet, the oldest first."""
        ...

    async def active_children(self, parent_id: RunId, *, limit: int) -> Sequence[RunId]:
        """Its active children, the oldest first."""
        ...

    async def queued_runs(
        self, lane: LaneName, *, limit: int, before_seq: int | None = None
    ) -> Sequence[Run]:
        """Those of the lane that have never started, newest first; pages as in `list_runs`."""
        ...

    async def oldest_runs(self, *, after_seq: int, limit: int) -> Sequence[Run]:
        """In the order in which they were accepted: where retention begins."""
        ...

    async def oldest_idempotency_keys(self, *, before: Instant, limit: int) -> Sequence[str]:
        """Idempotency keys that were used then or earlier, the oldest first."""
        ...

    async def count_idempotency_keys(self, *, before: Instant) -> int:
        """How many idempotency keys were used then or earlier."""
        ...
