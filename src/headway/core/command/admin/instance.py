"""Instances: the processes that execute runs. The lease is theirs; their runs fall with it."""

from dataclasses import dataclass
from typing import Final

from headway.core.batch_state import BatchState, Instance
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.end_run import Ended, end_with_error
from headway.core.command.run.notify_parent import notify_parent
from headway.core.command.run.wait import park, wake
from headway.core.document import check_text
from headway.core.duration import check_seconds
from headway.core.ids import InstanceId, Instant, RunId, add_seconds
from headway.core.run.events import EventType
from headway.core.run.run import (
    DEATH_COUNT_MAX,
    NO_TOKEN,
    STOP_COUNT_MAX,
    Claim,
    QueueRank,
    Recovery,
)
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger
from headway.core.timeouts import LEASE_TTL_S

INSTANCE_ID_LENGTH_MAX: Final = 36
LIFE_LOCK_LENGTH_MAX: Final = 128
_POISON_ERROR: Final = '{"code":"poison","message":"its executor died %d times without progress"}'
_STOPPED_ERROR: Final = (
    '{"code":"poison","message":"%d times the process that executed it was stopped'
    ' before it showed any progress"}'
)
_EXECUTOR_LOST_ERROR: Final = (
    '{"code":"executor_lost","message":"its executor died and the job does not resume"}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterInstance:
    instance_id: InstanceId
    host: str
    pid: int
    ttl_s: float = LEASE_TTL_S
    life_lock: str | None = None

    def __post_init__(self) -> None:
        check_text(self.instance_id, field="instance_id", length_max=INSTANCE_ID_LENGTH_MAX)
        check_text(self.host, field="host")
        check_seconds(self.ttl_s, field="ttl_s")
        if self.life_lock is not None:
            check_text(self.life_lock, field="life_lock", length_max=LIFE_LOCK_LENGTH_MAX)

    def need(self, needs: RowsNeeded) -> None:
        needs.instance_ids[self.instance_id] = None

    def decide(self, world: BatchState) -> Instant:
        """When the lease runs out. An id is used once; a known one was not chosen at random."""
        assert self.instance_id not in world.instances
        expires_at = add_seconds(world.now, seconds=self.ttl_s)
        instance = Instance(
            self.instance_id, expires_at, 0, self.host, self.pid, world.now, self.life_lock
        )
        world.instances[instance.id] = world.changes.instances_added[instance.id] = instance
        return expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewInstance:
    instance_id: InstanceId
    ttl_s: float = LEASE_TTL_S

    def need(self, needs: RowsNeeded) -> None:
        needs.instance_ids[self.instance_id] = None

    def decide(self, world: BatchState) -> Instant | None:
        """When the lease runs out now, or None: a dead instance never revives."""
        instance = world.instances.get(self.instance_id)
        if instance is None or instance.is_dead:
            return None
        expires_at = add_seconds(world.now, seconds=self.ttl_s)
        instance = instance._replace(lease_expires_at=expires_at)
        world.instances[instance.id] = world.changes.instances[instance.id] = instance
        return expires_at


@dataclass(frozen=True, slots=True)
class DeclareDead:
    instance_id: InstanceId
    is_proven: bool = False
    """Its process is known to be gone, so nobody has to wait for the lease."""

    def need(self, needs: RowsNeeded) -> None:
        needs.instance_ids[self.instance_id] = None

    def decide(self, world: BatchState) -> bool:
        """Whether it is dead, by this word or an earlier one. Its runs are orphans from here on."""
        instance = world.instances.get(self.instance_id)
        if instance is None:
            return False
        if instance.is_dead:
            return True
        if not self.is_proven and instance.lease_expires_at > world.now:
            return False
        instance = instance._replace(is_dead=1)
        world.instances[instance.id] = world.changes.instances[instance.id] = instance
        return True


@dataclass(frozen=True, slots=True)
class RetireInstance:
    """An instance that stopped in good order takes its row away; its runs must be released."""

    instance_id: InstanceId

    def need(self, needs: RowsNeeded) -> None:
        needs.instance_ids[self.instance_id] = None

    def decide(self, world: BatchState) -> bool:
        if world.instances.pop(self.instance_id, None) is None:
            return False
        world.changes.instances[self.instance_id] = None
        return True


@dataclass(frozen=True, slots=True)
class ReleaseOrphan:
    """Take a run from an instance that is dead, so that it can be claimed again (or end)."""

    run_id: RunId
    instance_id: InstanceId

    def need(self, needs: RowsNeeded) -> None:
        needs.add_ending_run(self.run_id, may_wake=True)
        needs.instance_ids[self.instance_id] = None

    def decide(self, world: BatchState) -> Ended | bool:
        """Return whether the run was taken from the instance, or Ended if it failed by that."""
        run = world.run(self.run_id)
        instance = world.instances.get(self.instance_id)
        if run is None or run.instance_id != self.instance_id:
            return False
        if instance is not None and not instance.is_dead:
            return False
        death_count = run.death_count + 1
        if run.status is RunStatus.CANCELLING:
            world.move(run, Trigger.FORCE_CANCEL, generation=run.generation + 1)
            notify_parent(world, run.id)
            return True
        if run.recovery is Recovery.FAIL or death_count >= DEATH_COUNT_MAX:
            error = (
                _EXECUTOR_LOST_ERROR
                if run.recovery is Recovery.FAIL
                else _POISON_ERROR % death_count
            )
            ended = end_with_error(world, run, Trigger.ABANDON, error, death_count=death_count)
            assert ended is not None
            return ended
        run = world.update(
            run,
            instance_id=None,
            token=NO_TOKEN,
            slot=None,
            window=0,
            death_count=death_count,
            queue_rank=int(QueueRank.RESUMED),
            ready_seq=world.seq + 1,
        )
        world.emit(run, EventType.TAKEN_OVER, f'{{"death_count":{death_count}}}')
        return True


@dataclass(frozen=True, slots=True)
class HandOver:
    """End an execution because its process stops. Another instance continues the run.

    Unlike Park it resets neither count, because a run that keeps stopping its process would
    otherwise be executed forever. It counts an execution without progress, unless it only waited.
    """

    claim: Claim
    has_progressed: bool
    """Whether it stored something new that a later execution finds, or was never begun."""
    has_waited: bool = False
    """Whether it had given its slot back before the stop began.

    An execution that waits only afterwards may be the reason for the stop.
    """

    def need(self, needs: RowsNeeded) -> None:
        needs.add_ending_run(self.claim.run_id, may_wake=True)

    def decide(self, world: BatchState) -> Ended | bool:
        """Return whether the claim was given up, or Ended if the run failed by that."""
        run = world.held_run(self.claim)
        if run is None or run.status is not RunStatus.RUNNING:
            return False
        is_waiting = self.has_waited and run.slot is None
        is_counted = not is_waiting and not self.has_progressed
        stop_count = run.stop_count + is_counted
        if is_counted and stop_count >= STOP_COUNT_MAX:
            error = _STOPPED_ERROR % stop_count
            ended = end_with_error(world, run, Trigger.ABANDON, error, stop_count=stop_count)
            assert ended is not None
            return ended
        run = park(
            world,
            run,
            world.now,
            attempt=run.attempt,
            death_count=run.death_count,
            stop_count=stop_count,
        )
        payload = f'{{"reason":"handed_over","stop_count":{stop_count}}}'
        wake(world, world.emit(run, EventType.PARKED, payload))
        return True
