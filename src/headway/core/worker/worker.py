"""A worker as it has registered, and whether it counts (R5.8)."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from headway.core.document import check_name, check_text
from headway.core.errors import InvalidInput
from headway.core.ids import SECOND, Instant

TTL_S: Final = 15.0
"""Who has not been heard of for so long takes no part."""
URL_LENGTH_MAX: Final = 500
SERVICE_COUNT_MAX: Final = 1_000
_SCHEMES: Final = ("http", "https")
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
    return heartbeat_at + ttl_s * SECOND >= now


def choose(
    workers: Sequence[LiveWorker],
    service: str,
    *,
    now: Instant,
    excluded: Sequence[str] = (),
    is_weighted: bool = True,
    busy: Mapping[str, int] | None = None,
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
    if not is_weighted:
        return able[turn % len(able)]
    known = busy or {}
    return min(able, key=lambda one: (max(one.load, known.get(one.id, 0)), one.id))


def check_worker_url(url: str) -> str:
    """The address of a worker, without a slash at its end; else InvalidInput."""
    text = check_text(url, place="url", length_max=URL_LENGTH_MAX).strip().rstrip("/")
    try:
        parts = urlsplit(text)
        is_address = bool(parts.hostname) and parts.port != 0 and parts.scheme in _SCHEMES
    except ValueError:
        parts, is_address = urlsplit(""), False
    if not is_address:
        raise InvalidInput("url", "must be an address such as http://127.0.0.1:8080")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("url", "must have no user, query or fragment")
    return text


def check_services(services: Sequence[str]) -> list[str]:
    if len(services) > SERVICE_COUNT_MAX:
        raise InvalidInput("services", f"a worker offers at most {SERVICE_COUNT_MAX:,}")
    return sorted({check_name(one, place="services") for one in services})
