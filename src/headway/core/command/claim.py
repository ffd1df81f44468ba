"""Claim: the one way to a slot, for runs that are new, woken, retried or orphaned alike."""

from dataclasses import dataclass
from heapq import heappush
from typing import Any, NamedTuple

from headway.core.command.command import ClaimNeed, Needs
from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId
from headway.core.run.events import EventType
from headway.core.run.run import NO_TOKEN, Mode, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger
from headway.core.world import World


class Claimed(NamedTuple):
    """A run that is the claimer's to execute, or to go on with when it holds it already."""

    run_id: RunId
    key: Key
    job: str
    mode: Mode
    token: str
    generation: int
    params: str
    checkpoint: str | None
    run_by: Instant | None
    is_resumed: bool
    """The executor had it already, waited without a slot, and has one again."""


@dataclass(frozen=True, slots=True)
class NotAlive:
    """The instance is unknown, declared dead, or its lease has run out: it may not claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRuns:
    lane: LaneName
    instance_id: InstanceId
    jobs: frozenset[str]
    count: int
    nonce: str
    """Random and never used before: the tokens of this claim are made from it."""

    def need(self, needs: Needs) -> None:
        needs.instance_ids[self.instance_id] = None
        needs.claims[self._need()] += self.count

    def _need(self) -> ClaimNeed:
        return ClaimNeed(self.lane, self.instance_id, self.jobs)

    def decide(self, world: World) -> tuple[Claimed, ...] | NotAlive:
        instance = world.instances.get(self.instance_id)
        if instance is None or instance.is_dead or instance.lease_expires_at <= world.now:
            return NotAlive()
        queue = world.lanes[self.lane]
        claimed: list[Claimed] = []
        passed_over: list[Run] = []
        while len(claimed) < self.count and queue.held_count < queue.lane.capacity:
            run = world.pop_ready(self.lane)
            if run is None:
                break
            if run.job in self.jobs and run.instance_id in (None, self.instance_id):
                claimed.append(self._take(world, run, f"{self.nonce}-{len(claimed)}"))
            else:
                passed_over.append(run)
        for run in passed_over:
            assert run.queue_rank is not None
            assert run.ready_seq is not None
            heappush(queue.ready, (run.queue_rank, run.ready_seq, run.id))
        return tuple(claimed)

    def _take(self, world: World, run: Run, token: str) -> Claimed:
        checkpoint = world.checkpoints.get(run.id)
        if checkpoint is None and run.continued_from is not None:
            checkpoint = world.checkpoints.get(run.continued_from)
        changes: dict[str, Any] = {
            "queue_rank": None,
            "ready_seq": None,
            "slot": self.lane,
            "queue_by": None,
        }
        is_resumed = run.token != NO_TOKEN
        if not is_resumed:
            changes |= {
                "token": token,
                "generation": run.generation + 1,
                "instance_id": self.instance_id,
            }
        if run.run_by is None and run.timeout_us is not None:
            changes["run_by"] = Instant(world.now + run.timeout_us)
        documents = None
        if run.status is RunStatus.QUEUED:
            changes["started_at"] = world.now
            # From here on the checkpoint is this run's own, whatever becomes of the one before.
            documents = {"checkpoint": checkpoint} if checkpoint is not None else None
            after = world.move(run, Trigger.CLAIM, documents=documents, **changes)
        else:
            after = world.update(run, **changes)
            after = world.emit(after, EventType.RESUMED, f'{{"generation":{after.generation}}}')
        assert after is not None
        return Claimed(
            run_id=after.id,
            key=after.key,
            job=after.job,
            mode=after.mode,
            token=after.token,
            generation=after.generation,
            params=world.params[run.id],
            checkpoint=checkpoint,
            run_by=after.run_by,
            is_resumed=is_resumed,
        )
