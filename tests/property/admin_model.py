"""The model of instances, lanes, saved keys and retention."""

from headway.core.batch_state import Instance, SavedKey
from headway.core.command.admin.instance import (
    DeclareDead,
    RegisterInstance,
    RenewInstance,
    RetireInstance,
)
from headway.core.command.admin.lane_limits import (
    ConfiguredLane,
    ConfigureLanes,
    ProposeLimit,
    SetLane,
)
from headway.core.command.admin.prune import PruneEvents, PruneIdempotencyKeys, PruneRuns
from headway.core.command.admin.save_key import DeleteKey, Locked, SaveKey
from headway.core.command.protocol import RevisionMismatch
from headway.core.ids import Instant
from headway.core.lane_row import LaneRow
from tests.property.model import Model, ModelRun


class AdminModel(Model):
    def lease(
        self, command: RegisterInstance | RenewInstance | DeclareDead | RetireInstance
    ) -> Instant | bool | None:
        instance = self.instances.get(command.instance_id)
        match command:
            case RegisterInstance():
                expires_at = self.after(command.ttl_s)
                self.instances[command.instance_id] = Instance(
                    command.instance_id,
                    expires_at,
                    0,
                    command.host,
                    command.pid,
                    self.now,
                    command.life_lock,
                )
                return expires_at
            case RenewInstance():
                if instance is None or instance.is_dead:
                    return None
                expires_at = self.after(command.ttl_s)
                self.instances[instance.id] = instance._replace(lease_expires_at=expires_at)
                return expires_at
            case DeclareDead():
                if instance is None:
                    return False
                is_expired = instance.lease_expires_at <= self.now
                if not (instance.is_dead or command.is_proven or is_expired):
                    return False
                self.instances[instance.id] = instance._replace(is_dead=1)
                return True
            case RetireInstance():
                return self.instances.pop(command.instance_id, None) is not None

    def set_lane(self, command: SetLane) -> LaneRow | RevisionMismatch:
        lane = self.lane(command.name)
        if command.expected_revision not in (None, lane.revision):
            return RevisionMismatch(lane.revision)
        if command.max_concurrent is not None:
            lane = lane._replace(max_concurrent=command.max_concurrent, is_set_by_hand=1)
        if command.max_queued is not None:
            lane = lane._replace(max_queued=command.max_queued if command.max_queued >= 0 else None)
        if command.is_paused is not None:
            lane = lane._replace(is_paused=int(command.is_paused))
        return self._change(lane, by=command.by)

    def propose_limit(self, command: ProposeLimit) -> LaneRow:
        lane = self.lane(command.name)
        is_set = lane.is_set_by_hand or lane.configured_limit is not None
        if is_set or lane.max_concurrent == command.max_concurrent:
            return lane
        return self._change(lane._replace(max_concurrent=command.max_concurrent))

    def configure_lanes(self, command: ConfigureLanes) -> tuple[ConfiguredLane, ...]:
        changed = []
        for name, limit in command.limits:
            lane = self.lane(name)
            if lane.configured_limit != limit:
                changed.append(ConfiguredLane(name, lane.max_concurrent, limit))
                lane = lane._replace(max_concurrent=limit, configured_limit=limit)
                self._change(lane, by="configuration")
        return tuple(changed)

    def _change(self, lane: LaneRow, *, by: str = "") -> LaneRow:
        lane = self.lanes[lane.name] = lane._replace(revision=lane.revision + 1)
        payload = {
            "max_concurrent": lane.max_concurrent,
            "max_queued": lane.max_queued,
            "is_paused": bool(lane.is_paused),
            "by": by,
        }
        self.emit(None, "lane_changed", payload, lane=lane.name)
        return lane

    def save_key(self, command: SaveKey) -> SavedKey | Locked | RevisionMismatch:
        head = self.head_of(command.key)
        if head is not None:
            return Locked(head.id)
        saved = self.keys.get(command.key)
        revision = 0 if saved is None else saved.revision
        if command.expected_revision not in (None, revision):
            return RevisionMismatch(revision)
        saved = SavedKey(command.key, command.job, command.params, self.seq + 1, self.now)
        self.keys[command.key] = saved
        self.emit(
            None, "key_changed", {"revision": self.seq + 1, "by": command.by}, key=command.key
        )
        return saved

    def delete_key(self, command: DeleteKey) -> bool | Locked:
        head = self.head_of(command.key)
        if head is not None:
            return Locked(head.id)
        if self.keys.pop(command.key, None) is None:
            return False
        self.emit(None, "key_changed", {"revision": None, "by": command.by}, key=command.key)
        return True

    def prune(self, command: PruneRuns | PruneEvents | PruneIdempotencyKeys) -> int:
        match command:
            case PruneRuns():
                gone = [run for run in self.runs if self._may_go(run, command)]
                self.runs = [run for run in self.runs if run not in gone]
                ids = {run.id for run in gone}
                self.inbox = [item for item in self.inbox if item.run_id not in ids]
                return len(gone)
            case PruneEvents():
                last_seq = min(command.up_to_seq, self.pruned_seq + command.count_max, self.seq)
                self.pruned_seq = max(self.pruned_seq, last_seq)
                self.events = [event for event in self.events if event["seq"] > self.pruned_seq]
                return self.pruned_seq
            case PruneIdempotencyKeys():
                old = [
                    key
                    for key, (_, _, at) in self.remembered.items()
                    if key in command.idempotency_keys and at <= command.recorded_before
                ]
                for key in old:
                    del self.remembered[key]
                return len(old)

    def _may_go(self, run: ModelRun, command: PruneRuns) -> bool:
        """Return whether a run is over and old, and its key, parent and children do not need it."""
        parent = self.run(run.command.parent_id)
        if run.is_parent or (parent is not None and parent.is_active):
            return False
        if self.head_of(run.key) is not None and run.started_at is not None:
            later = self.runs[self.runs.index(run) + 1 :]
            if not any(other.key == run.key and other.started_at is not None for other in later):
                return False  # A Continue would start from it.
        is_old = run.ended_at is not None and run.ended_at < command.ended_before
        return run.id in command.run_ids and is_old
