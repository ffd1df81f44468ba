"""Registered workers, and how one of them is chosen for a call (R5.8)."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headway.core.document import check_name
from headway.core.errors import InvalidInput
from headway.core.ids import SECOND_US, Instant

TTL_S: Final = 15.0
"""A worker without a heartbeat for this long gets no calls."""
RETENTION_S: Final = 86_400.0
"""A worker without a heartbeat for this long is removed."""
SERVICE_COUNT_MAX: Final = 1_000
LOAD_MAX: Final = 1_000_000_000


class SavedWorker(NamedTuple):
    id: str
    url: str
    services: str
    """The names of the worker's services, as a JSON list."""
    load: int
    heartbeat_at: Instant


class LiveWorker(NamedTuple):
    """A registered worker with its services decoded."""

    id: str
    url: str
    services: frozenset[str]
    load: int
    heartbeat_at: Instant


def is_alive(heartbeat_at: Instant, now: Instant, ttl_s: float = TTL_S) -> bool:
    return heartbeat_at + ttl_s * SECOND_US >= now


def choose_worker(
    workers: Sequence[LiveWorker],
    service: str,
    *,
    now: Instant,
    excluded: Sequence[str] = (),
    prefers_least_load: bool = True,
    in_flight_counts: Mapping[str, int] | None = None,
    turn: int = 0,
) -> LiveWorker | None:
    """Return a live worker that offers the service, or None if there is none.

    Choose the worker with the least load if `prefers_least_load` is set. Otherwise `turn` selects
    the workers in rotation. `in_flight_counts` maps each worker to the number of this program's
    calls in flight. The load in the worker's last heartbeat may not include these calls yet.
    """
    able = [
        worker
        for worker in workers
        if service in worker.services
        and worker.id not in excluded
        and is_alive(worker.heartbeat_at, now)
    ]
    if not able:
        return None
    if not prefers_least_load:
        return able[turn % len(able)]
    counts = in_flight_counts or {}
    return min(able, key=lambda worker: (max(worker.load, counts.get(worker.id, 0)), worker.id))


def check_services(services: Sequence[str]) -> list[str]:
    if len(services) > SERVICE_COUNT_MAX:
        raise InvalidInput("services", f"must be at most {SERVICE_COUNT_MAX:,} names")
    return sorted({check_name(service, field="services") for service in services})
