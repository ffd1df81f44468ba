"""The registry of workers: their addresses, services, load and last heartbeats."""

from dataclasses import dataclass
from typing import ClassVar

from headway.core.batch_state import BatchState
from headway.core.command.flow.publish import flow_changes
from headway.core.command.protocol import RowsNeeded
from headway.core.document import encode_document, trim_names
from headway.core.event_payloads import WorkerChanged
from headway.core.ids import Instant
from headway.core.worker.saved_worker import LOAD_MAX, SavedWorker, check_services, is_alive
from headway.core.worker.worker_address import check_worker_url


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterWorker:
    """Register a worker, or change its services or address. Its load starts at 0."""

    id: str
    url: str
    services: tuple[str, ...]

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        trim_names(self, "id")
        object.__setattr__(self, "url", check_worker_url(self.url))
        object.__setattr__(self, "services", tuple(check_services(self.services)))

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.workers[self.id] = None

    def decide(self, batch: BatchState) -> None:
        services = encode_document(self.services, field="services")
        worker = SavedWorker(self.id, self.url, services, 0, batch.now)
        before = batch.workers.get(self.id)
        _save_worker(batch, worker)
        if (
            before is not None
            and is_alive(before.heartbeat_at, batch.now)
            and (before.url, before.services) == (worker.url, worker.services)
        ):
            return  # Workers register repeatedly. Nothing has changed, so there is no event.
        batch.emit_global(WorkerChanged(self.id, self.url, self.services))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHeartbeat:
    """Record that a worker is alive, and its load. The load is limited to 0 … LOAD_MAX."""

    id: str
    load: int

    may_free_capacity: ClassVar[bool] = False

    def __post_init__(self) -> None:
        trim_names(self, "id")
        object.__setattr__(self, "load", max(0, min(self.load, LOAD_MAX)))

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.workers[self.id] = None

    def decide(self, batch: BatchState) -> bool:
        """Return False if the worker is not registered."""
        worker = batch.workers.get(self.id)
        if worker is None:
            return False
        _save_worker(batch, worker._replace(load=self.load, heartbeat_at=batch.now))
        return True


@dataclass(frozen=True, slots=True)
class PruneWorkers:
    """Remove the workers in `ids` whose last heartbeat is older than `heartbeat_before`."""

    ids: tuple[str, ...]
    heartbeat_before: Instant

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.workers |= dict.fromkeys(self.ids)

    def decide(self, batch: BatchState) -> int:
        """Return how many workers were removed."""
        old_ids = [
            worker_id
            for worker_id in self.ids
            if (worker := batch.workers.get(worker_id)) is not None
            and worker.heartbeat_at < self.heartbeat_before
        ]
        for worker_id in old_ids:
            del batch.workers[worker_id]
            flow_changes(batch).workers_removed[worker_id] = None
        return len(old_ids)


def _save_worker(batch: BatchState, worker: SavedWorker) -> None:
    changes = flow_changes(batch)
    if worker.id not in batch.workers or worker.id in changes.workers_added:
        changes.workers_added[worker.id] = worker
    else:
        changes.workers[worker.id] = worker
    batch.workers[worker.id] = worker
