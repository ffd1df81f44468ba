"""Instances: the processes that execute runs.

An instance holds a lease. When the lease expires, the instance is declared dead and other instances
take over its runs.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from headway.core.batch_state import BatchState, Instance
from headway.core.command.protocol import HolderCommand, RowsNeeded
from headway.core.command.run.end_run import Ended, end_with_error, notify_parent
from headway.core.command.run.wait import park, wake
from headway.core.document import check_text
from headway.core.duration import check_seconds
from headway.core.event_payloads import Parked, TakenOver
from headway.core.ids import InstanceId, Instant, RunId, add_seconds
from headway.core.run.run import (
    DEATH_COUNT_MAX,
    NO_TOKEN,
    STOP_COUNT_MAX,
    QueueRank,
    Recovery,
    Run,
)
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger
from headway.core.timeouts import LEASE_TTL_S

INSTANCE_ID_LENGTH_MAX: Final = 36
LIFE_LOCK_LENGTH_MAX: Final = 128
_POISON_ERROR: Final = (
    '{"code":"poison","message":"the process that executed it was lost %d times'
    ' without progress in between"}'
)
_STOPPED_ERROR: Final = (
    '{"code":"poison","message":"the process that executed it was stopped %d times'
    ' without progress in between"}'
)
_EXECUTOR_LOST_ERROR: Final = (
    '{"code":"executor_lost","message":"the process that executed it was lost,'
    ' and its job is set to fail instead of resuming"}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterInstance:
    """Add an instance with a new lease."""

    instance_id: InstanceId
    host: str
    pid: int
    ttl_s: float = LEASE_TTL_S
    life_lock: str | None = None

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_text(self.instance_id, field="instance_id", length_max=INSTANCE_ID_LENGTH_MAX)
        check_text(self.host, field="host")
        check_seconds(self.ttl_s, field="ttl_s")
        if self.life_lock is not None:
            check_text(self.life_lock, field="life_lock", length_max=LIFE_LOCK_LENGTH_MAX)

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.instance_ids[self.instance_id] = None

    def decide(self, batch: BatchState) -> Instant:
        """Return when the lease expires."""
        # Ids are random and used once.
        assert self.instance_id not in batch.instances
        expires_at = add_seconds(batch.now, seconds=self.ttl_s)
        instance = Instance(
            self.instance_id, expires_at, 0, self.host, self.pid, batch.now, self.life_lock
        )
        batch.instances[instance.id] = batch.changes.instances_added[instance.id] = instance
        return expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewInstance:
    """Renew the lease of an instance. A dead instance stays dead."""

    instance_id: InstanceId
    ttl_s: float = LEASE_TTL_S

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.instance_ids[self.instance_id] = None

    def decide(self, batch: BatchState) -> Instant | None:
        """Return when the renewed lease expires, or None if the instance is unknown or dead."""
        instance = batch.instances.get(self.instance_id)
        if instance is None or instance.is_dead:
            return None
        expires_at = add_seconds(batch.now, seconds=self.ttl_s)
        instance = instance._replace(lease_expires_at=expires_at)
        batch.instances[instance.id] = batch.changes.instances[instance.id] = instance
        return expires_at


@dataclass(frozen=True, slots=True)
class DeclareDead:
    """Declare an instance dead if its lease has expired. This cannot be undone."""

    instance_id: InstanceId
    is_proven: bool = False
    """True if the instance's process has certainly exited, so its lease need not expire first."""

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.instance_ids[self.instance_id] = None

    def decide(self, batch: BatchState) -> bool:
        """Return whether the instance is now dead. The runs of a dead instance are orphans."""
        instance = batch.instances.get(self.instance_id)
        if instance is None:
            return False
        if instance.is_dead:
            return True
        if not self.is_proven and instance.lease_expires_at > batch.now:
            return False
        instance = instance._replace(is_dead=1)
        batch.instances[instance.id] = batch.changes.instances[instance.id] = instance
        return True


@dataclass(frozen=True, slots=True)
class RetireInstance:
    """Remove the row of an instance that stops normally. Release the instance's runs first."""

    instance_id: InstanceId

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.instance_ids[self.instance_id] = None

    def decide(self, batch: BatchState) -> bool:
        if batch.instances.pop(self.instance_id, None) is None:
            return False
        batch.changes.instances[self.instance_id] = None
        return True


@dataclass(frozen=True, slots=True)
class ReleaseOrphan:
    """Take a run from a dead instance: make the run claimable again, or end it."""

    run_id: RunId
    instance_id: InstanceId

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_ending_run(self.run_id, may_wake=True)
        rows.instance_ids[self.instance_id] = None

    def decide(self, batch: BatchState) -> Ended | bool:
        """Return Ended if the run failed, True if it was released, and False otherwise.

        The result is False if the instance does not hold the run or is not dead. A run that was
        cancelling is canceled, and the result is True.
        """
        run = batch.run(self.run_id)
        instance = batch.instances.get(self.instance_id)
        if run is None or run.instance_id != self.instance_id:
            return False
        if instance is not None and not instance.is_dead:
            return False
        death_count = run.death_count + 1
        if run.status is RunStatus.CANCELLING:
            batch.move(run, Trigger.FORCE_CANCEL, generation=run.generation + 1)
            notify_parent(batch, run.id)
            return True
        if run.recovery is Recovery.FAIL or death_count >= DEATH_COUNT_MAX:
            error = (
                _EXECUTOR_LOST_ERROR
                if run.recovery is Recovery.FAIL
                else _POISON_ERROR % death_count
            )
            ended = end_with_error(batch, run, Trigger.ABANDON, error, death_count=death_count)
            assert ended is not None
            return ended
        run = batch.update(
            run,
            instance_id=None,
            token=NO_TOKEN,
            slot=None,
            window=0,
            death_count=death_count,
            queue_rank=int(QueueRank.RESUMED),
            ready_seq=batch.seq + 1,
        )
        batch.emit(run, TakenOver(death_count))
        return True


@dataclass(frozen=True, slots=True)
class HandOver(HolderCommand[Ended | bool]):
    """End an execution because its process stops. Another instance continues the run.

    Unlike `Park`, `HandOver` resets neither `death_count` nor `stop_count`. Otherwise a run that
    keeps stopping its process would be executed forever. An execution without progress increments
    `stop_count`, unless the execution only waited.
    """

    has_progressed: bool
    """True if the execution stored something for a later execution, or was never started."""
    has_waited: bool = False
    """True if the execution had given its slot back before the stop began.

    An execution that gives its slot back only afterwards may have caused the stop.
    """

    may_free_capacity: ClassVar[bool] = True

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_ending_run(self.claim.run_id, may_wake=True)

    def decide_held(self, batch: BatchState, run: Run) -> Ended | bool:
        """Return Ended if the run failed, else whether the claim was given up."""
        if run.status is not RunStatus.RUNNING:
            return False
        is_waiting = self.has_waited and run.slot is None
        is_counted = not is_waiting and not self.has_progressed
        stop_count = run.stop_count + is_counted
        if is_counted and stop_count >= STOP_COUNT_MAX:
            error = _STOPPED_ERROR % stop_count
            ended = end_with_error(batch, run, Trigger.ABANDON, error, stop_count=stop_count)
            assert ended is not None
            return ended
        run = park(
            batch,
            run,
            batch.now,
            attempt=run.attempt,
            death_count=run.death_count,
            stop_count=stop_count,
        )
        payload = Parked(reason="handed_over", stop_count=stop_count)
        wake(batch, batch.emit(run, payload))
        return True


@dataclass(frozen=True, slots=True)
class Probe:
    """Check that the store can commit, by a transaction that writes only the writer's own row.

    A transaction that is rolled back is not enough: a full disk refuses only actual writes.
    """

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        """Add no rows: every batch locks the stream's counter."""

    def decide(self, batch: BatchState) -> None:
        batch.changes.is_probe = True
