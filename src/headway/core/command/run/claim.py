"""Claim: the one way to a slot, for runs that are new, woken, retried or orphaned alike."""

from dataclasses import dataclass
from heapq import heappush
from typing import Any, Final, NamedTuple

from headway.core.batch_state import BatchState
from headway.core.command.protocol import ClaimRequest, RowsNeeded, trim_names
from headway.core.errors import InvalidInput
from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId
from headway.core.run.events import EventType
from headway.core.run.run import NO_TOKEN, Run, RunMode
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger

CLAIM_COUNT_MAX: Final = 1_000


class ClaimedRun(NamedTuple):
    """A run that is the claimer's to execute, or to go on with when it holds it already."""

    run_id: RunId
    key: Key
    job: str
    mode: RunMode
    token: str
    generation: int
    attempt: int
    params: str
    checkpoint: str | None
    run_deadline_at: Instant | None
    is_resumed: bool
    """The executor had it already, waited without a slot, and has one again."""
    on_existing_output: str | None = None
    """What is to be done with the key's output before the job begins."""
    traceparent: str | None = None
    unread_count: int = 0
    """What is in its inbox already."""
    started_at: Instant | None = None
    """When it was claimed for the first time."""


@dataclass(frozen=True, slots=True)
class InstanceLost:
    """The instance is unknown, declared dead, or its lease has run out: it may not claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRuns:
    lane: LaneName
    instance_id: InstanceId
    jobs: frozenset[str]
    count: int
    nonce: str
    """Random and never used before: the tokens of this claim are made from it."""

    def __post_init__(self) -> None:
        trim_names(self, "lane")
        if not 0 < self.count <= CLAIM_COUNT_MAX:
            raise InvalidInput("count", f"must be 1 to {CLAIM_COUNT_MAX:,}")
        if not self.jobs:
            raise InvalidInput("jobs", "must name at least one job")

    def need(self, needs: RowsNeeded) -> None:
        needs.instance_ids[self.instance_id] = None
        needs.claims[self._to_request()] += self.count

    def _to_request(self) -> ClaimRequest:
        return ClaimRequest(self.lane, self.instance_id, self.jobs)

    def decide(self, world: BatchState) -> tuple[ClaimedRun, ...] | InstanceLost:
        instance = world.instances.get(self.instance_id)
        if instance is None or instance.is_dead or instance.lease_expires_at <= world.now:
            return InstanceLost()
        queue = world.lane_queues[self.lane]
        claimed: list[ClaimedRun] = []
        passed_over: list[Run] = []
        # Slots that runs of other instances are waiting for, having had one before: they go first.
        kept_count = 0
        while len(claimed) < self.count and queue.held_count + kept_count < queue.lane.capacity:
            run = world.pop_ready(self.lane)
            if run is None:
                break
            if run.instance_id not in (None, self.instance_id):
                passed_over.append(run)
                kept_count += 1
            elif run.job not in self.jobs:
                passed_over.append(run)
            else:
                claimed.append(self._claim(world, run, f"{self.nonce}-{len(claimed)}"))
        for run in passed_over:
            assert run.queue_rank is not None
            assert run.ready_seq is not None
            heappush(queue.ready, (run.queue_rank, run.ready_seq, run.id))
        return tuple(claimed)

    def _claim(self, world: BatchState, run: Run, token: str) -> ClaimedRun:
        checkpoint = world.checkpoints.get(run.id)
        previous_id = world.previous_run_ids.get(run.id) if checkpoint is None else None
        changes: dict[str, Any] = {
            "queue_rank": None,
            "ready_seq": None,
            "slot": self.lane,
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
            changes["run_deadline_at"] = Instant(world.now + run.timeout_us)
        documents = None
        if previous_id is not None:
            # Whoever stood between and never started has nothing to go on from.
            changes["continued_from"] = previous_id
            checkpoint = world.checkpoints.get(previous_id)
        if run.status is RunStatus.QUEUED:
            changes["started_at"] = world.now
            # From here on the checkpoint is this run's own, whatever becomes of the one before.
            documents = {"checkpoint": checkpoint} if checkpoint is not None else None
            after = world.move(run, Trigger.CLAIM, documents=documents, **changes)
        else:
            after = world.update(run, **changes)
            after = world.emit(after, EventType.RESUMED, f'{{"generation":{after.generation}}}')
        assert after is not None
        return ClaimedRun(
            run_id=after.id,
            key=after.key,
            job=after.job,
            mode=after.mode,
            token=after.token,
            generation=after.generation,
            attempt=after.attempt,
            params=world.params[run.id],
            checkpoint=checkpoint,
            run_deadline_at=after.run_deadline_at,
            is_resumed=is_resumed,
            on_existing_output=after.on_existing_output,
            traceparent=after.traceparent,
            unread_count=after.unread_count,
            started_at=after.started_at,
        )
