"""Once: what carries an idempotency key leads to the same however often it is asked for (I6)."""

import hashlib
from dataclasses import dataclass

from headway.core.batch_state import BatchState, IdempotencyRecord
from headway.core.ids import RunId


@dataclass(frozen=True, slots=True)
class Repeated:
    """The idempotency key was used before, with the same request: this is its run."""

    run_id: RunId


@dataclass(frozen=True, slots=True)
class IdempotencyMismatch:
    """The idempotency key was used before, with another request."""

    run_id: RunId


def make_fingerprint(*said: object) -> str:
    """Tells requests apart by what their callers have said, each in words; None: nothing.

    Not by what is done: what was not said may be filled in otherwise when the request is repeated.
    """
    words = [None if one is None else str(one) for one in said]
    return hashlib.sha256(repr(words).encode()).hexdigest()


def find_earlier(
    world: BatchState, idempotency_key: str, fingerprint: str
) -> Repeated | IdempotencyMismatch | None:
    """What the key has led to; None: nothing yet."""
    earlier = world.idempotency_records.get(idempotency_key)
    if earlier is None:
        return None
    is_same = earlier.fingerprint == fingerprint
    return Repeated(earlier.run_id) if is_same else IdempotencyMismatch(earlier.run_id)


def save_record(world: BatchState, idempotency_key: str, fingerprint: str, run_id: RunId) -> None:
    remembered = IdempotencyRecord(idempotency_key, run_id, fingerprint, world.now)
    world.idempotency_records[idempotency_key] = remembered
    world.changes.idempotency_records_added[idempotency_key] = remembered
