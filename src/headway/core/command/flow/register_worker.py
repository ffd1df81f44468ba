"""The registry of workers: who is there, what they offer, and when they were last heard of."""

from dataclasses import dataclass

from headway.core.batch_state import BatchState
from headway.core.command.flow.publish import flow_changes
from headway.core.command.protocol import RowsNeeded, trim_names
from headway.core.document import encode_document
from headway.core.ids import Instant
from headway.core.run.events import EventType
from headway.core.worker.saved_worker import LOAD_MAX, SavedWorker, check_services, is_alive
from headway.core.worker.worker_address import check_worker_url


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterWorker:
    """Known anew, or with other services or another address; its load counts from nothing."""

    id: str
    url: str
    services: tuple[str, ...]

    def __post_init__(self) -> None:
        trim_names(self, "id")
        object.__setattr__(self, "url", check_worker_url(self.url))
        object.__setattr__(self, "services", tuple(check_services(self.services)))

    def need(self, needs: RowsNeeded) -> None:
        needs.workers[self.id] = None

    def decide(self, world: BatchState) -> None:
        services = encode_document(self.services, field="services")
        worker = SavedWorker(self.id, self.url, services, 0, world.now)
        known = world.workers.get(self.id)
        _save_worker(world, worker)
        if (
            known is not None
            and is_alive(known.heartbeat_at, world.now)
            and (known.url, known.services) == (worker.url, worker.services)
        ):
            return  # It says so now and then, and nothing is new.
        told = {"id": self.id, "url": self.url, "services": self.services}
        world.emit_global(EventType.WORKER_CHANGED, encode_document(told, field="worker"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHeartbeat:
    """It lives, and has so much to do. What it says is only believed as far as it can be true."""

    id: str
    load: int

    def __post_init__(self) -> None:
        trim_names(self, "id")
        object.__setattr__(self, "load", max(0, min(self.load, LOAD_MAX)))

    def need(self, needs: RowsNeeded) -> None:
        needs.workers[self.id] = None

    def decide(self, world: BatchState) -> bool:
        """False: nobody knows it."""
        known = world.workers.get(self.id)
        if known is None:
            return False
        _save_worker(world, known._replace(load=self.load, heartbeat_at=world.now))
        return True


@dataclass(frozen=True, slots=True)
class PruneWorkers:
    """Forget those who are silent for longer than anybody looks back."""

    ids: tuple[str, ...]
    heartbeat_before: Instant

    def need(self, needs: RowsNeeded) -> None:
        needs.workers |= dict.fromkeys(self.ids)

    def decide(self, world: BatchState) -> int:
        """How many were forgotten. Who was heard of since is none of them."""
        silent = [
            worker_id
            for worker_id in self.ids
            if (known := world.workers.get(worker_id)) is not None
            and known.heartbeat_at < self.heartbeat_before
        ]
        for worker_id in silent:
            del world.workers[worker_id]
            flow_changes(world).workers_removed[worker_id] = None
        return len(silent)


def _save_worker(world: BatchState, worker: SavedWorker) -> None:
    changes = flow_changes(world)
    if worker.id not in world.workers or worker.id in changes.workers_added:
        changes.workers_added[worker.id] = worker
    else:
        changes.workers[worker.id] = worker
    world.workers[worker.id] = worker
