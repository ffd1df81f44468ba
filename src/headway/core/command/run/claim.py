"""Claim: the only way for a run to get a slot, whether new, woken, retried or orphaned."""

from dataclasses import dataclass
from heapq import heappush
from typing import Any, ClassVar, Final, NamedTuple

from headway.core.batch_state import BatchState, LaneQueue
from headway.core.command.protocol import ClaimRequest, RowsNeeded
from headway.core.errors import InvalidInput
from headway.core.event_payloads import Resumed
from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId
from headway.core.run.run import NO_TOKEN, Run, RunMode
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger

CLAIM_COUNT_MAX: Final = 1_000


class ClaimedRun(NamedTuple):
    """A claimed run. The instance executes it, or resumes it if the instance already held it."""

    run_id: RunId
    key: Key
    lane: LaneName
    job: str
    mode: RunMode
    token: str
    generation: int
    attempt: int
    params: str
    checkpoint: str | None
    run_deadline_at: Instant | None
    is_resumed: bool
    """True if the executor already held the run, waited without a slot, and has a slot again."""
    on_existing_output: str | None = None
    """An `OnExistingOutput` to apply to the key's earlier output before the job starts."""
    traceparent: str | None = None
    unread_count: int = 0
    """The number of unread items in the run's inbox."""
    started_at: Instant | None = None
    """When the run was claimed for the first time."""


@dataclass(frozen=True, slots=True)
class InstanceLost:
    """The instance may not claim: it is unknown, declared dead, or its lease has expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRuns:
    """Claim up to `count` ready runs from each of `lanes`, in the order of each lane's queue."""

    lanes: tuple[LaneName, ...]
    instance_id: InstanceId
    jobs: frozenset[str]
    count: int
    nonce: str
    """A random value that was never used before. The tokens of this claim are made from it."""

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.count <= CLAIM_COUNT_MAX:
            raise InvalidInput("count", f"must be 1 to {CLAIM_COUNT_MAX:,}")
        if not self.jobs:
            raise InvalidInput("jobs", "must name at least one job")

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.instance_ids[self.instance_id] = None
        for lane in self.lanes:
            rows.claims[ClaimRequest(lane, self.instance_id, self.jobs)] += self.count

    def decide(self, batch: BatchState) -> tuple[ClaimedRun, ...] | InstanceLost:
        instance = batch.instances.get(self.instance_id)
        if instance is None or instance.is_dead or instance.lease_expires_at <= batch.now:
            return InstanceLost()
        claimed: list[ClaimedRun] = []
        for lane in self.lanes:
            queue = batch.lane_queues[lane]
            if queue.ready:
                self._claim_from(batch, queue, claimed)
        return tuple(claimed)

    def _claim_from(self, batch: BatchState, queue: LaneQueue, claimed: list[ClaimedRun]) -> None:
        """Append the runs claimed from one lane to `claimed`."""
        passed_over: list[Run] = []
        # Slots that are reserved for resumed runs of other instances: these runs go first.
        reserved_count = 0
        capacity, count_max = queue.lane.capacity, len(claimed) + self.count
        while len(claimed) < count_max and queue.held_count + reserved_count < capacity:
            run = batch.pop_ready(queue)
            if run is None:
                break
            if run.instance_id not in (None, self.instance_id):
                passed_over.append(run)
                reserved_count += 1
            elif run.job not in self.jobs:
                passed_over.append(run)
            else:
                claimed.append(self._claim(batch, run, f"{self.nonce}-{len(claimed)}"))
        for run in passed_over:
            assert run.queue_rank is not None
            assert run.ready_seq is not None
            heappush(queue.ready, (run.queue_rank, run.ready_seq, run.id))

    def _claim(self, batch: BatchState, run: Run, token: str) -> ClaimedRun:
        checkpoint = batch.checkpoints.get(run.id)
        previous_id = batch.previous_run_ids.get(run.id) if checkpoint is None else None
        changes: dict[str, Any] = {
            "queue_rank": None,
            "ready_seq": None,
            "slot": run.lane,
            "queue_deadline_at": None,
        }
        is_resumed = run.token != NO_TOKEN
        if not is_resumed:
            changes |= {
                "token": token,
                "generation": run.generation + 1,
                "instance_id": self.instance_id,
            }
        if run.run_deadline_at is None and run.timeout_us is not None:
            changes["run_deadline_at"] = Instant(batch.now + run.timeout_us)
        documents = None
        if previous_id is not None:
            # Skip runs that never started: they have no checkpoint.
            changes["continued_from"] = previous_id
            checkpoint = batch.checkpoints.get(previous_id)
        if run.status is RunStatus.QUEUED:
            changes["started_at"] = batch.now
            # Copied, so that the run keeps its checkpoint when the earlier run is pruned.
            documents = {"checkpoint": checkpoint} if checkpoint is not None else None
            after = batch.move(run, Trigger.CLAIM, documents=documents, **changes)
        else:
            after = batch.update(run, **changes)
            after = batch.emit(after, Resumed(after.generation))
        assert after is not None
        return ClaimedRun(
            run_id=after.id,
            key=after.key,
            lane=after.lane,
            job=after.job,
            mode=after.mode,
            token=after.token,
            generation=after.generation,
            attempt=after.attempt,
            params=batch.params[run.id],
            checkpoint=checkpoint,
            run_deadline_at=after.run_deadline_at,
            is_resumed=is_resumed,
            on_existing_output=after.on_existing_output,
            traceparent=after.traceparent,
            unread_count=after.unread_count,
            started_at=after.started_at,
        )
