"""A worker as it has registered, and whether it counts (R5.8)."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headway.core.document import check_name
from headway.core.errors import InvalidInput
from headway.core.ids import SECOND_US, Instant

TTL_S: Final = 15.0
"""Who has not been heard of for so long takes no part."""
RETENTION_S: Final = 86_400.0
"""Who has not been heard of for so long is forgotten."""
SERVICE_COUNT_MAX: Final = 1_000
LOAD_MAX: Final = 1_000_000_000


class SavedWorker(NamedTuple):
    id: str
    url: str
    services: str
    """A JSON list of names."""
    load: int
    heartbeat_at: Instant


class LiveWorker(NamedTuple):
    """With its services read."""

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
    """A live worker that offers the service: the one with the least load, or each in its turn.

    `busy` is what this program has under way at each, which their last word may not know yet.
    """
    able = [
        one
        for one in workers
        if service in one.services and one.id not in excluded and is_alive(one.heartbeat_at, now)
    ]
    if not able:
        return None
    if not prefers_least_load:
        return able[turn % len(able)]
    known = in_flight_counts or {}
    return min(able, key=lambda one: (max(one.load, known.get(one.id, 0)), one.id))


def check_services(services: Sequence[str]) -> list[str]:
    if len(services) > SERVICE_COUNT_MAX:
        raise InvalidInput("services", f"a worker offers at most {SERVICE_COUNT_MAX:,}")
    return sorted({check_name(one, field="services") for one in services})
